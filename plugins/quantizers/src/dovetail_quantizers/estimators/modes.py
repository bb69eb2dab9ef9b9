"""The SDK's quantizer modes (`--act_quantizer`, `--param_quantizer`) in terms of estimators."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from dovetail_quantizers.grid import Scheme


@dataclass(frozen=True, slots=True)
class QuantizerMode:
    """The range estimator, by the name of its entry point, and the scheme of a mode."""

    estimator: str
    scheme: Scheme


# Source: SDK reference, "Quantization Modes".
QUANTIZER_MODES = MappingProxyType(
    {
        "tf": QuantizerMode("min-max", Scheme.ASYMMETRIC),
        "symmetric": QuantizerMode("min-max", Scheme.SYMMETRIC),
        "enhanced": QuantizerMode("enhanced", Scheme.ASYMMETRIC),
        "adjusted": QuantizerMode("adjusted", Scheme.ASYMMETRIC),
    }
)
