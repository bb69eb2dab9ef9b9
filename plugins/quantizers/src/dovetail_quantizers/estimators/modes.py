"""The SDK's quantizer modes (`--act_quantizer`, `--param_quantizer`) as estimators."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from dovetail_quantizers.grid import Scheme


@dataclass(frozen=True, slots=True)
class QuantizerMode:
    """A quantizer mode: the entry point of its range estimator, and its scheme."""

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
