"""OpenVINO's FakeQuantize, as NNCF and OpenVINO's tools write it into ONNX files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importers
from dovetail_onnx.operators._fake import Levels, fake_quantized, fitting
from dovetail_opset.importing.constant import Value

OPENVINO = Importers("org.openvinotoolkit")
# Maximum distance from a whole number of a zero point computed from float32 ranges.
_WHOLE = 1e-2
_MOST_LEVELS = 2**16


@OPENVINO.importer("FakeQuantize", versions=(1,))
def fake_quantize(op: OpContext) -> Value:
    """Emit fake quantization to levels from the minimum to the maximum, one of which is zero."""
    names = {1: "input_low", 2: "input_high", 3: "output_low", 4: "output_high"}
    ends = [found.astype(np.float64) for found in fitting(op, names)]
    levels = op.attr.integer("levels", 256)
    if not 3 <= levels <= _MOST_LEVELS:
        raise op.unsupported(f"unsupported {levels} levels; expected 3 to {_MOST_LEVELS}")
    low, high = ends[:2]
    step = (high - low) / np.float64(levels - 1)
    same = all(
        np.allclose(a, b, rtol=0, atol=float(step.min()) * _WHOLE)
        for a, b in zip(ends[:2], ends[2:], strict=True)
    )
    if not same:
        raise op.unsupported(
            "unsupported output range that differs from the input range",
            hint="fold the factor into the next layer, or export quantization as pairs of "
            "QuantizeLinear and DequantizeLinear",
        )
    if not (step.astype(np.float32) > 0).all():
        raise op.invalid("the input range is empty")
    zero = np.rint(-low / step)
    if np.abs(-low / step - zero).max() > _WHOLE:
        raise op.unsupported(
            "zero is not one of the levels, so padding with zeros would not be exact",
            hint="configure the quantization so that zero is a level",
        )
    return fake_quantized(op, _levels(step, zero, levels))


def _levels(step: NDArray[np.float64], zero: NDArray[np.float64], levels: int) -> Levels:
    """Return the grid: of signed integers where zero is in the middle, else of unsigned ones."""
    scale, half = step.astype(np.float32), levels // 2
    if (zero == half).all():
        return Levels(scale, np.zeros_like(scale), -half, levels - 1 - half)
    return Levels(scale, zero.astype(np.float32), 0, levels - 1)
