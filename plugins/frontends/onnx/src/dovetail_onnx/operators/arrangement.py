"""Repetition of tensors, and triangles of matrices."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Spec
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, operand, where
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import reshaped


@ONNX.importer("Tile", versions=(6, 13))
def tile(op: OpContext) -> Value:
    """Tile."""
    shape, multiples = op.spec(0).shape, op.need_ints(1, "repeats")
    if len(multiples) != len(shape) or any(m < 0 for m in multiples):
        raise op.invalid(f"repeats {multiples} do not match {shape}")
    if all(m == 1 for m in multiples):
        return op.value(0)
    op.check_size(multiples)
    return op.emit("Tile", [op.tensor(0)], multiples=multiples)


@ONNX.importer("Expand", versions=(8, 13))
def expand(op: OpContext) -> Value:
    """Tile along each dimension that grows; Reshape where only the rank does."""
    x, wanted = op.tensor(0), op.need_ints(1, "shape")
    try:
        shape = np.broadcast_shapes(x.shape, wanted)
    except ValueError as error:
        raise op.invalid(f"{x.shape} does not broadcast to {wanted}") from error
    if shape == x.shape:
        return op.value(0)
    aligned = (1,) * (len(shape) - len(x.shape)) + x.shape
    if shape == aligned:
        return op.emit("Reshape", [x], spec=Spec(x.dtype, shape))
    multiples = [n if own != n else 1 for own, n in zip(aligned, shape, strict=True)]
    op.check_size(tuple(multiples))
    return op.emit("Tile", [reshaped(op, "aligned", x, aligned)], multiples=multiples)


@ONNX.importer("Trilu", versions=(14,))
def trilu(op: OpContext) -> Value:
    """ElementWiseSelect between the input and 0."""
    x = operand(op, 0)
    diagonal = int(op.need_number(1, "diagonal")) if op.has(1) else 0
    if len(x.shape) < 2:
        raise op.invalid(f"input must have rank 2 or more, got shape {x.shape}")
    rows, columns = x.shape[-2:]
    op.reserve_constant((rows, columns))
    # beyond the corners all diagonals are alike
    diagonal = max(-rows, min(diagonal, columns + 1))
    lower = np.tri(rows, columns, diagonal - 1 if _is_upper(op) else diagonal, np.bool_)
    kept = op.static("kept", ~lower if _is_upper(op) else lower, DType.BOOL_8)
    return where(Expr(op, kept), x, 0).emit()


def _is_upper(op: OpContext) -> bool:
    return bool(op.attr.integer("upper", 1))
