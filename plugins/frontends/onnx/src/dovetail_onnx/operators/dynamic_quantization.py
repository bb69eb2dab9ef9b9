"""Quantization to bytes with scale and zero point from the numbers themselves."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, maximum, minimum, where
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value

_STEPS = 255


@ONNX.importer("DynamicQuantizeLinear", versions=(11,))
def dynamic_quantize_linear(op: OpContext) -> Sequence[Value]:
    """Divide by the scale, round, add the zero point; both follow from minimum and maximum."""
    x = op.value(0)
    scale, point = byte_coding(op, x, *(i if op.is_output_used(i) else None for i in (1, 2)))
    return [Expr(op, x).apply("QuantizeLinear", scale, point).emit(), scale, point]


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
    real = Expr(op, x)
    low = minimum(real.apply("ReduceMin", keepdims=0), 0)
    extent = maximum(real.apply("ReduceMax", keepdims=0), 0) - low
    # if all is 0, any scale will do
    scale = where(extent.equals(0), 1, extent / _STEPS).named("scale").emit(scale_output)
    return scale, (-low).apply("QuantizeLinear", scale).named("point").emit(point_output)
