"""Convolutions with what follows them."""

from __future__ import annotations

from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import value_of
from dovetail_onnx.operators._parts import given, value
from dovetail_onnx.operators.convolution import CONV_ATTRIBUTES
from dovetail_onnx.operators.microsoft._fused import activated
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value


@MICROSOFT.importer("FusedConv", versions=(1,))
def fused_conv(op: OpContext) -> Value:
    """Emit a convolution, plus a tensor of the result's shape, and an activation."""
    rest = [value(op, i) for i in range(1, min(op.count, 3))]
    y = value_of(op, 0).apply("Conv", *rest, **given(op, CONV_ATTRIBUTES))
    if op.has(3):
        y += op.value(3)
    numbers = op.attr.numbers("activation_params") or ()
    return activated(op, y, op.attr.text("activation", ""), numbers).emit()
