"""Running products."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, operand
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value


@ONNX.importer("CumProd", versions=(26,))
def cumulative_product(op: OpContext) -> Value:
    """Multiply by the elements 1, 2, 4, ... positions before: one step for each bit of the size."""
    given = op.need_ints(1, "axis")
    if len(given) != 1:
        raise op.invalid(f"axis must be a single number, got {given}")
    axis = op.axis(given[0], len(op.spec(0).shape))
    reverse = bool(op.attr.integer("reverse", 0))
    result = operand(op, 0)
    if result.shape[axis] == 0:
        return result.emit()
    if op.attr.integer("exclusive", 0):
        result = Expr(op, _shifted(op, result.tensor, axis, 1, reverse=reverse))
    distance = 1
    while distance < op.spec(0).shape[axis]:
        result *= _shifted(op, result.tensor, axis, distance, reverse=reverse)
        distance *= 2
    return result.emit()


def _shifted(op: OpContext, x: Tensor, axis: int, distance: int, *, reverse: bool) -> Tensor:
    """Return the element at a distance before each element, or after it; 1 beyond the end."""
    extent = x.shape[axis]
    ones_shape = (*x.shape[:axis], min(distance, extent), *x.shape[axis + 1 :])
    op.reserve_constant(
        (4, *ones_shape)
    )  # made in 64 bits, and the next one may have twice as many
    ones = op.static("ones", np.ones(ones_shape), x.dtype)
    if distance >= extent:
        return ones
    ranges = [(0, n, 1) for n in x.shape]
    ranges[axis] = (distance, extent, 1) if reverse else (0, extent - distance, 1)
    rest = op.step("rest", "StridedSlice", [x], ranges=ranges)
    parts = [rest, ones] if reverse else [ones, rest]
    return op.step("shifted", "Concat", parts, axis=axis)
