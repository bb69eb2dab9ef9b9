"""Quant of QONNX, as Brevitas and others write it into ONNX files."""

from __future__ import annotations

import numpy as np

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importers
from dovetail_onnx.operators._fake import Levels, fake_quantized, fitting
from dovetail_opset.importing.constant import Value

QONNX = Importers("qonnx.custom_op.general")
BREVITAS = Importers("onnx.brevitas")
_MOST_BITS = 16


@QONNX.importer("Quant", versions=(1, 2))
@QONNX.importer("IntQuant", versions=(1, 2))
@BREVITAS.importer("Quant", versions=(1, 2))
@BREVITAS.importer("IntQuant", versions=(1, 2))
def quant(op: OpContext) -> Value:
    """Quantize to integers of a bitwidth and dequantize again."""
    scale, zero = fitting(op, {1: "scale", 2: "zero point"})
    bits = float(op.need_number(3, "bit width"))
    if bits not in range(2, _MOST_BITS + 1):  # which no nan is
        raise op.unsupported(f"unsupported bit width {bits:g}; expected 2 to {_MOST_BITS}")
    mode = op.attr.text("rounding_mode", "ROUND").upper()
    if mode != "ROUND":
        raise op.unsupported(
            f"unsupported rounding mode {mode}; expected ROUND, to the nearest",
            hint="quantize with rounding to the nearest",
        )
    if not (scale > 0).all() or not np.array_equal(zero, np.rint(zero)):
        raise op.invalid("scale must be positive, and the zero point a whole number")
    narrow, steps = bool(op.attr.integer("narrow", 0)), 1 << int(bits)
    if op.attr.integer("signed", 1):
        low, high = -(steps // 2) + narrow, steps // 2 - 1
    else:
        low, high = 0, steps - 1 - narrow
    return fake_quantized(op, Levels(scale, zero, low, high))
