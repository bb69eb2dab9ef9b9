"""Determinants."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, operand
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Result

# Each additional row doubles the products and loses digits: unlike LU decomposition, sums of
# products have no pivoting.
_MOST_ROWS = 8


@ONNX.importer("Det", versions=(11, 22))
def determinant(op: OpContext) -> Result:
    """Laplace's expansion, row by row: no op decomposes a matrix.

    The minors of the first k rows, one for each choice of k columns, give those of k + 1 rows: a
    sum over the columns of a choice. For two rows that is a * d - b * c.
    """
    spec = op.spec(0)
    if len(spec.shape) < 2 or spec.shape[-1] != spec.shape[-2]:
        raise op.invalid(f"input must be (..., n, n), got shape {spec.shape}")
    *batch, rows, _ = spec.shape
    if rows > _MOST_ROWS:
        raise op.unsupported(
            f"unsupported matrices of {rows} rows; the maximum is {_MOST_ROWS}, since every row "
            "more doubles the work",
            hint="cut the graph before it with --out-name",
        )
    made = Spec(spec.dtype, tuple(batch))
    if rows == 0:  # a product of nothing
        op.reserve_constant(made.shape)
        return np.ones(made.shape, spec.dtype.storage)
    count = math.prod(batch)
    matrices = operand(op, 0).reshaped((count, rows, rows))
    minors = _row(matrices, 0)
    for i in range(1, rows):
        minors = _expanded(op, minors, _row(matrices, i), i)
    return minors.step("Reshape", spec=made).emit()


def _row(matrices: Expr, i: int) -> Expr:
    """Return (n, columns): one row of each matrix."""
    count, _, columns = matrices.shape
    if columns == 1:
        return matrices.reshaped((count, 1))
    ranges = [(0, count, 1), (i, i + 1, 1), (0, columns, 1)]
    return matrices.step("StridedSlice", ranges=ranges, shrink_axes=2)


def _expanded(op: OpContext, minors: Expr, row: Expr, i: int) -> Expr:
    """Return the minors of i + 1 rows, (n, choices), of those of i rows and of row i."""
    columns, lesser, signs = _choices(row.shape[1], i + 1)
    elements, cofactors = (
        x.step("Gather", op.static("places", places.reshape(-1), DType.INT_32), axis=1)
        for x, places in ((row, columns), (minors, lesser))
    )
    products = (elements * cofactors).reshaped((row.shape[0], *columns.shape))
    return (products * signs).step("ReduceSum", axes=(2,), keep_dims=False)


def _choices(columns: int, size: int) -> tuple[Array, Array, Array]:
    """Return the terms of the minors for each choice of columns.

    Args:
        columns: The number of columns.
        size: Number of chosen columns.

    Returns:
        (choices, size) of the column whose element is taken, and of the index of the minor of the
        choice without it; (size,) of the sign.
    """
    place = {c: i for i, c in enumerate(combinations(range(columns), size - 1))}
    chosen = list(combinations(range(columns), size))
    lesser = [[place[c[:i] + c[i + 1 :]] for i in range(size)] for c in chosen]
    signs = (-1.0) ** (size - 1 + np.arange(size))
    return np.array(chosen), np.array(lesser), signs
