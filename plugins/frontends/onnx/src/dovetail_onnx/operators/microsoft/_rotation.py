"""Rotary embeddings: pairs of elements rotated by angles that grow with their position."""

from __future__ import annotations

from dovetail.ir import DType, Shape, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, value_of
from dovetail_onnx.operators._parts import constant
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import reshaped


def angles(op: OpContext, tables: tuple[int, int], positions: Value, shape: Shape) -> list[Tensor]:
    """Return cosines and sines of positions, at import where both are known.

    Args:
        op: The node.
        tables: The inputs that are the tables, (maximum position, pairs).
        positions: Integers, (batch, rows).
        shape: The shape of the results, without the pairs.

    Raises:
        FrontendError: The tables are not matrices of the same shape.
    """
    first, second = (op.spec(i).shape for i in tables)
    if first != second or len(first) != 2:
        raise op.invalid(
            f"tables {first} of cosines and {second} of sines must have the same shape"
        )
    target = constant(op, "angles_shape", (*shape, first[1]), DType.INT_64)
    found = []
    for i in tables:
        rows = value_of(op, i).apply("Gather", positions, axis=0)
        found.append(rows.apply("Reshape", target).tensor)
    return found


def rotated(
    op: OpContext, suffix: str, x: Tensor, turns: list[Tensor], *, interleaved: bool
) -> Tensor:
    """Return (..., size) with its first elements rotated in pairs.

    Args:
        op: The node.
        suffix: Names it.
        x: (..., size).
        turns: Cosines and sines, (..., pairs), that broadcast to x.
        interleaved: Whether a pair is two adjacent elements, instead of elements half a size apart.

    Raises:
        FrontendError: There are more pairs than x has.
    """
    pairs, size = turns[0].shape[-1], x.shape[-1]
    if 2 * pairs > size:
        raise op.invalid(f"{2 * pairs} rotated elements exceed heads of {size}")
    step = 2 if interleaved else 1
    first, second = (
        Expr(op, _part(op, f"{suffix}_{name}", x, begin, end, step))
        for name, begin, end in (
            ("real", 0, 2 * pairs if interleaved else pairs),
            ("imaginary", 1 if interleaved else pairs, 2 * pairs),
        )
    )
    cosines, sines = turns
    turned = first * cosines - second * sines, first * sines + second * cosines
    axis = len(x.shape) - 1
    parts = [part.tensor for part in turned]
    if interleaved:
        columns = [reshaped(op, f"{suffix}_column", t, (*t.shape, 1)) for t in parts]
        both = op.step(f"{suffix}_pairs", "Concat", columns, axis=axis + 1)
        parts = [reshaped(op, f"{suffix}_turned", both, (*x.shape[:-1], 2 * pairs))]
    if 2 * pairs < size:
        parts.append(_part(op, f"{suffix}_rest", x, 2 * pairs, size, 1))
    if len(parts) == 1:
        return parts[0]
    return op.step(f"{suffix}_rotated", "Concat", parts, axis=axis)


def _part(op: OpContext, suffix: str, x: Tensor, begin: int, end: int, step: int) -> Tensor:
    ranges = [(0, extent, 1) for extent in x.shape[:-1]]
    return op.step(suffix, "StridedSlice", [x], ranges=[*ranges, (begin, end, step)])
