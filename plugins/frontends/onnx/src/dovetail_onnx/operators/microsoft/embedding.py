"""The embeddings that a BERT begins with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import DType
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, value_of
from dovetail_onnx.operators._parts import constant
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value


@MICROSOFT.importer("EmbedLayerNormalization", versions=(1,))
def embed_layer_normalization(op: OpContext) -> Sequence[Value | None]:
    """LayerNorm of the sum of rows of two or three tables, and the number of words."""
    ids = op.spec(0).shape
    if len(ids) != 2:
        raise op.invalid(f"input_ids {ids} must be (batch, words)")
    total = _rows(op, 2, op.value(0)) + _positions(op, ids[1])
    if op.has(1) and op.has(4):
        total += _rows(op, 4, op.value(1))
    sums = total.emit(2 if op.is_output_used(2) else None)
    norm = Expr(op, sums).apply(
        "LayerNormalization",
        op.value(5),
        op.value(6),
        axis=-1,
        epsilon=op.attr.number("epsilon", 1e-12),
    )
    return [norm.emit(), _word_counts(op) if op.is_output_used(1) else None, sums]


def _rows(op: OpContext, table: int, ids: Value) -> Expr:
    return value_of(op, table).apply("Gather", ids, axis=0)


def _positions(op: OpContext, count: int) -> Expr:
    """Return the rows of the table of positions: the first ones unless position_ids is given."""
    if op.has(8):
        return _rows(op, 3, op.value(8))
    if (*op.spec(3).shape, 0)[0] < count:
        raise op.invalid(f"table of positions {op.spec(3).shape} is too short for {count} words")
    op.reserve_constant((2, count))  # of 64 bits
    return _rows(op, 3, constant(op, "positions", np.arange(count), DType.INT_64))


def _word_counts(op: OpContext) -> Value:
    """Return how many elements of each row of the mask are 1; 0 without a mask."""
    batch = op.spec(0).shape[0]
    if not op.has(7):
        op.reserve_constant((2, batch))  # of 64 bits
        return constant(op, "mask_index", np.zeros(batch), DType.INT_32)
    words = value_of(op, 7).equals(1).cast(DType.INT_32)
    return words.apply("ReduceSum", constant(op, "axes", [1], DType.INT_64), keepdims=0).emit(1)
