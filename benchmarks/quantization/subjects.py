"""The networks to quantize: the convolutional ones of the float benchmark, and trained ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import ROOT
from benchmarks.recipes import NETWORKS

# Networks with drawn weights; the others of the float benchmark have few convolutions.
DRAWN = tuple(name for name in NETWORKS if name not in ("encoder", "lstm"))

# Networks with real weights and images; a test compares them with the list of the tests.
TRAINED: Mapping[str, Path] = {
    "digits": ROOT / "examples" / "digits" / "digits.onnx",
    **{
        name: ROOT / "examples" / "trained" / f"{name}.onnx"
        for name in ("depthwise", "scaled", "attention", "recurrent")
    },
}
SUBJECTS = (*DRAWN, *TRAINED)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one network, once prepared.

    Attributes:
        onnx: The float network.
        dvt: The converted network, which we quantize.
        prepared: The network after ONNX Runtime's preprocessing, which it quantizes.
        data: Images for calibration and for tests, `.npz`.
        reference: ONNX Runtime's float outputs for the test images, `.npz`.
    """

    onnx: Path
    dvt: Path
    prepared: Path
    data: Path
    reference: Path
