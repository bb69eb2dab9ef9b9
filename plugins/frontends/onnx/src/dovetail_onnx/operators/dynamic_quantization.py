"""Quantization to bytes with scale and zero point from the numbers themselves."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Value
from dovetail_onnx.operators._parts import apply_operator, constant
from dovetail_onnx.operators._table import ONNX

_STEPS = 255


@ONNX.importer("DynamicQuantizeLinear", versions=(11,))
def dynamic_quantize_linear(op: OpContext) -> Sequence[Value]:
    """Divide by the scale, round, add the zero point; both follow from minimum and maximum."""
    x = op.value(0)
    scale, point = byte_coding(op, x, *(i if op.is_output_used(i) else None for i in (1, 2)))
    return [
        apply_operator(op, "stored", "QuantizeLinear", [x, scale, point], output=0),
        scale,
        point,
    ]


def byte_coding(
    op: OpContext, x: Value, scale_output: int | None = None, point_output: int | None = None
) -> tuple[Value, Value]:
    """Return scale and zero point with which UINT_8 holds 0 and all of a tensor.

    Args:
        op: The node.
        x: The tensor.
        scale_output: Index of the node's output for the scale; None for none.
        point_output: Index of the output for the zero point.
    """
    zero = constant(op, "nothing", 0, x.dtype)
    least = apply_operator(op, "least", "ReduceMin", [x], keepdims=0)
    most = apply_operator(op, "most", "ReduceMax", [x], keepdims=0)
    low = apply_operator(op, "low", "Min", [least, zero])
    extent = apply_operator(
        op, "extent", "Sub", [apply_operator(op, "high", "Max", [most, zero]), low]
    )
    quotient = apply_operator(op, "steps", "Div", [extent, constant(op, "count", _STEPS, x.dtype)])
    is_flat = apply_operator(op, "is_flat", "Equal", [extent, zero])
    one = constant(op, "one", 1, x.dtype)  # all is 0, whatever the scale
    scale = apply_operator(op, "scale", "Where", [is_flat, one, quotient], output=scale_output)
    below = apply_operator(op, "below", "Neg", [low])
    return scale, apply_operator(op, "point", "QuantizeLinear", [below, scale], output=point_output)
