"""Convolutions with what follows them."""

from __future__ import annotations

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Value
from dovetail_onnx.operators._parts import apply_operator, given, value
from dovetail_onnx.operators.convolution import CONV_ATTRIBUTES
from dovetail_onnx.operators.microsoft._fused import activated
from dovetail_onnx.operators.microsoft._table import MICROSOFT


@MICROSOFT.importer("FusedConv", versions=(1,))
def fused_conv(op: OpContext) -> Value:
    """Emit a convolution, plus a tensor of the result's shape, and an activation."""
    activation = op.attr.text("activation", "")
    inputs = [value(op, i) for i in range(min(op.count, 3))]
    adds = op.has(3)
    y = apply_operator(
        op,
        "conv",
        "Conv",
        inputs,
        output=None if adds or activation else 0,
        **given(op, CONV_ATTRIBUTES),
    )
    if adds:
        y = apply_operator(op, "sum", "Add", [y, op.value(3)], output=None if activation else 0)
    return activated(op, y, activation, op.attr.numbers("activation_params") or ())
