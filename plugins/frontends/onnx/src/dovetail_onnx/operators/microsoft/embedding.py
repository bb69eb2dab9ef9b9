"""The embeddings that a BERT begins with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from dovetail.ir import DType
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Value
from dovetail_onnx.operators._parts import apply_operator, constant
from dovetail_onnx.operators.microsoft._table import MICROSOFT


@MICROSOFT.importer("EmbedLayerNormalization", versions=(1,))
def embed_layer_normalization(op: OpContext) -> Sequence[Value | None]:
    """LayerNorm of the sum of rows of two or three tables, and the number of words."""
    ids = op.spec(0).shape
    if len(ids) != 2:
        raise op.invalid(f"input_ids {ids} must be (batch, words)")
    total = apply_operator(
        op, "positions", "Add", [_rows(op, "word", 2, op.value(0)), _positions(op, ids[1])]
    )
    if op.has(1) and op.has(4):
        rows = _rows(op, "segment", 4, op.value(1))
        total = apply_operator(op, "segments", "Add", [total, rows], output=_output(op, 2))
    elif _output(op, 2) is not None:
        zero = constant(op, "zero", [0], total.dtype)
        total = apply_operator(op, "sum", "Add", [total, zero], output=2)
    epsilon = op.attr.number("epsilon", 1e-12)
    inputs = [total, op.value(5), op.value(6)]
    y = apply_operator(op, "norm", "LayerNormalization", inputs, output=0, axis=-1, epsilon=epsilon)
    return [y, _word_counts(op) if op.is_output_used(1) else None, total]


def _output(op: OpContext, i: int) -> int | None:
    return i if op.is_output_used(i) else None


def _rows(op: OpContext, suffix: str, table: int, ids: Value) -> Value:
    return apply_operator(op, suffix, "Gather", [op.value(table), ids], axis=0)


def _positions(op: OpContext, count: int) -> Value:
    """Return the rows of the table of positions: the first ones unless position_ids is given."""
    if op.has(8):
        return _rows(op, "position", 3, op.value(8))
    if (*op.spec(3).shape, 0)[0] < count:
        raise op.invalid(f"table of positions {op.spec(3).shape} is too short for {count} words")
    op.reserve_constant((2, count))  # of 64 bits
    return _rows(op, "position", 3, constant(op, "positions", np.arange(count), DType.INT_64))


def _word_counts(op: OpContext) -> Value:
    """Return how many elements of each row of the mask are 1; 0 without a mask."""
    batch = op.spec(0).shape[0]
    if not op.has(7):
        op.reserve_constant((2, batch))  # of 64 bits
        return constant(op, "mask_index", np.zeros(batch), DType.INT_32)
    one = constant(op, "one", [1], DType.INT_32)
    is_word = apply_operator(op, "is_word", "Equal", [op.value(7), one])
    ones = apply_operator(op, "words", "Cast", [is_word], to=TensorProto.INT32)
    axes = constant(op, "axes", [1], DType.INT_64)
    return apply_operator(op, "mask_index", "ReduceSum", [ones, axes], output=1, keepdims=0)
