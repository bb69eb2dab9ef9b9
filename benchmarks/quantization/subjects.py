"""What is quantized: the convolutional networks of the float benchmark, and the trained ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import ROOT
from benchmarks.recipes import NETWORKS

# Those whose weights are drawn; the others of the float benchmark have next to no convolutions.
DRAWN = tuple(name for name in NETWORKS if name not in ("encoder", "lstm"))

# Those with real weights and real images; a test compares with the list of the tests.
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
        dvt: The same, converted: what we quantize.
        prepared: The same, as ONNX Runtime's tools prepare it: what they quantize.
        data: Images to calibrate with and to test with, `.npz`.
        reference: ONNX Runtime's float outputs for the latter, `.npz`.
    """

    onnx: Path
    dvt: Path
    prepared: Path
    data: Path
    reference: Path
