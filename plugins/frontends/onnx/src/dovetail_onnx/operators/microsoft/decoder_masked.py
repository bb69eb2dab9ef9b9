"""Attention of the one new row of a decoder, to a cache or to given keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr
from dovetail_onnx.operators._parts import (
    constant,
    reject_attributes,
    reject_inputs,
)
from dovetail_onnx.operators.microsoft._attended import attended
from dovetail_onnx.operators.microsoft._heads import cut, emit_joined, with_past
from dovetail_onnx.operators.microsoft._masks import AttentionSizes, padding_bias
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_onnx.operators.microsoft.multi_head import in_heads
from dovetail_opset.importing.constant import Value

_KEY, _MASK, _SCORES, _PAST, _LENGTH, _BEAMS, _BIAS = 1, 3, 4, 5, 7, 8, 10
_SEARCH = "decode greedily, with one beam, or search for beams outside of the model"


@MICROSOFT.importer("DecoderMaskedMultiHeadAttention", versions=(1,))
def decoder_masked_attention(op: OpContext) -> Sequence[Tensor | None]:
    """Emit products and Softmax by head; the new row goes after the past or into its buffer."""
    reject_inputs(op, {9: "cache_indirection"}, _SEARCH)
    reject_attributes(op, {"output_qk": 0}, "leave the output qk out")
    beams = int(op.need_number(_BEAMS, "beam_width")) if op.has(_BEAMS) else 1
    if beams != 1:
        raise op.unsupported(f"unsupported beam_width {beams}", _SEARCH)
    if op.spec(0).shape[1:2] != (1,) or len(op.spec(0).shape) != 3:
        raise op.invalid(f"query {op.spec(0).shape} must be (batch, 1, heads * size)")
    query, key, values = _heads(op)
    shown: Value | None = None
    if op.has(_KEY) and len(op.spec(_KEY).shape) == 4:
        pass  # attention to given keys: all are used and none is stored
    elif op.attr.integer("past_present_share_buffer", 0):
        key, shown = _in_buffer(op, 0, key)
        values, _ = _in_buffer(op, 1, values)
    else:
        key = with_past(op, "keys", op.optional(_PAST), key, 1)
        values = with_past(op, "values", op.optional(_PAST + 1), values, 2)
    y = _attended(op, query, key, values, shown)
    return [y, key if op.is_output_used(1) else None, values if op.is_output_used(2) else None]


def _heads(op: OpContext) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value with their biases, (batch, heads, rows, size)."""
    query = op.tensor(0)
    if op.has(_KEY):
        given = [query, op.tensor(_KEY), op.tensor(2)]
    else:
        given = cut(op, "query", query, 2, (query.shape[2] // 3,) * 3)
    return in_heads(op, given, op.attr.integer("num_heads", 0), _BIAS)


def _in_buffer(op: OpContext, which: int, row: Tensor) -> tuple[Tensor, Value]:
    """Return the past, a buffer, with the new row added at its end, and the rows in use.

    Args:
        op: The node.
        which: 0 for keys, 1 for values.
        row: (batch, heads, 1, size).
    """
    past, length = op.value(_PAST + which), op.value(_LENGTH)
    batch, heads, _, size = row.shape
    if len(past.shape) != 4 or past.shape[:2] != (batch, heads) or past.shape[3] != size:
        raise op.invalid(f"past {past.shape} does not match heads of {row.shape}")
    if np.prod(length.shape) != 1:
        raise op.invalid(f"past_sequence_length {length.shape} must be one element")
    rows = constant(op, "rows", np.arange(past.shape[2])[:, None], length.dtype)
    end = Expr(op, length).apply("Reshape", constant(op, "one", [1], DType.INT_64))
    written = (Expr(op, rows).equals(end)).apply("Where", row, past)
    used = 1 + which if op.is_output_used(1 + which) else None
    columns = constant(op, "columns", np.arange(past.shape[2]), length.dtype)
    return op.as_tensor(written.emit(used)), (Expr(op, columns) <= end).value


def _attended(
    op: OpContext, query: Tensor, key: Tensor, values: Tensor, shown: Value | None = None
) -> Tensor:
    """Emit the attention of one row with the node's mask and bias of scores, to rows in use."""
    if key.shape[:2] != query.shape[:2] or key.shape[3] != query.shape[3]:
        raise op.invalid(f"query {query.shape} and key {key.shape} do not match")
    if key.shape[:3] != values.shape[:3]:
        raise op.invalid(f"key {key.shape} and value {values.shape} do not match")
    sizes = AttentionSizes(query.shape[0], 1, key.shape[2])
    biases = []
    if op.has(_SCORES):
        biases.append(_of_all_keys(op, op.value(_SCORES), sizes.keys))
    if op.has(_MASK):
        # a mask may end with the row in a buffer that is longer
        shape = op.spec(_MASK).shape
        part = replace(sizes, keys=shape[1]) if shown is not None and len(shape) == 2 else sizes
        biases.append(_of_all_keys(op, padding_bias(op, _MASK, part, query.dtype), sizes.keys))
    if shown is not None:
        lowest = -65504.0 if query.dtype is DType.FLOAT_16 else float(np.finfo(np.float32).min)
        zero, hidden = (constant(op, "shown_by", v, query.dtype) for v in (0.0, lowest))
        biases.append(Expr(op, shown).apply("Where", zero, hidden).value)
    return emit_joined(op, attended(op, query, key, values, biases))


def _of_all_keys(op: OpContext, bias: Value, keys: int) -> Value:
    """Return a bias of scores (..., fewer keys) with zeros for the rest of the buffer."""
    missing = keys - bias.shape[-1] if bias.shape else 0
    if missing <= 0:
        return bias
    pads = constant(op, "pads", [0] * (2 * len(bias.shape) - 1) + [missing], DType.INT_64)
    return Expr(op, bias).apply("Pad", pads).value
