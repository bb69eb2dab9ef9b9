"""Attention of queries to keys and values that are given, or packed into one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr
from dovetail_onnx.operators._parts import reject_inputs, value
from dovetail_onnx.operators.microsoft._attended import attended
from dovetail_onnx.operators.microsoft._heads import cut, emit_joined, split_heads, with_past
from dovetail_onnx.operators.microsoft._masks import AttentionSizes, causal_bias, padding_bias
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import reshaped

NAMES = ("query", "key", "value")


@MICROSOFT.importer("MultiHeadAttention", versions=(1,))
def multi_head_attention(op: OpContext) -> Sequence[Tensor | None]:
    """Products and Softmax for each head; a past is put before keys and values."""
    reject_inputs(
        op,
        {8: "past_sequence_length", 9: "cache_indirection"},
        "export the model with a past that is not in a shared buffer",
    )
    if op.is_output_used(3):
        raise op.unsupported("unsupported output qk", hint="leave it out")
    if op.has(6) != op.has(7):
        raise op.invalid("past_key and past_value must be given together")
    query, key, values = _heads(op)
    same = query.shape[:2] == key.shape[:2] and query.shape[3] == key.shape[3]
    if not same or key.shape[:3] != values.shape[:3]:
        raise op.invalid(
            f"query {query.shape}, key {key.shape} and value {values.shape} do not match each "
            "other, as (batch, heads, rows, size)"
        )
    key = with_past(op, "keys", op.optional(6), key, 1)
    values = with_past(op, "values", op.optional(7), values, 2)
    sizes = AttentionSizes(query.shape[0], query.shape[2], key.shape[2])
    biases: list[Value | None] = [value(op, 5)]
    if op.has(4):
        biases.append(padding_bias(op, 4, sizes, query.dtype))
    if op.attr.integer("unidirectional", 0) and sizes.queries > 1:
        biases.append(_causal(op, sizes, query))
    y = emit_joined(op, attended(op, query, key, values, biases))
    return [y, key if op.is_output_used(1) else None, values if op.is_output_used(2) else None]


def _causal(op: OpContext, sizes: AttentionSizes, query: Tensor) -> Value:
    """Return the mask of keys, counted from the first one if they are not the queries' own."""
    before = op.spec(6).shape[2] if op.has(6) else 0
    if sizes.keys - sizes.queries == before:
        return causal_bias(op, sizes, query.dtype)
    raise op.unsupported(
        f"unidirectional attention of {sizes.queries} queries to {sizes.keys - before} "
        "keys cannot be converted",
        hint="leave unidirectional out, and pass key_padding_mask",
    )


def in_heads(
    op: OpContext, given: Sequence[Tensor], heads: int, bias: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value, plus a bias, as (batch, heads, rows, size).

    Args:
        op: The node.
        given: The three, (batch, rows, heads * size); keys and values may be in heads already.
        heads: Number of heads.
        bias: The number of the input that is the bias; it may be left out.
    """
    if op.has(bias):
        given = _biased(op, given, bias)
    query, key, values = (
        t if len(t.shape) == 4 else split_heads(op, name, t, heads)
        for name, t in zip(NAMES, given, strict=True)
    )
    return query, key, values


def _heads(op: OpContext) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value as (batch, heads, rows, size), with their biases."""
    heads = op.attr.integer("num_heads", 0)
    given = _given(op, heads)
    return in_heads(op, given, heads, 3)


def _given(op: OpContext, heads: int) -> list[Tensor]:
    """Return query, key and value: (batch, rows, heads * size), or in heads already."""
    query, key = op.tensor(0), op.optional(1)
    if key is None:
        if query.shape[2:4] != (heads, 3) or len(query.shape) != 5:
            raise op.invalid(
                f"without a key, the query {query.shape} must be (batch, rows, heads, 3, size)"
            )
        return _unpacked(op, query)
    if len(query.shape) != 3:
        raise op.invalid(f"query {query.shape} must be (batch, rows, heads * size)")
    if len(key.shape) == 5 and not op.has(2):
        if key.shape[2:4] != (heads, 2):
            raise op.invalid(f"key {key.shape} must be (batch, rows, heads, 2, size)")
        return [query, *_unpacked(op, key)]
    given = [query, key, op.tensor(2)]
    if {len(t.shape) for t in given[1:]} not in ({3}, {4}):
        raise op.invalid(f"key {key.shape} and value {given[2].shape} must both have rank 3 or 4")
    return given


def _unpacked(op: OpContext, packed: Tensor) -> list[Tensor]:
    """Return the parts of (batch, rows, heads, parts, size), each (batch, rows, heads * size)."""
    batch, rows, heads, parts, size = packed.shape
    pieces = cut(op, "packed", packed, 3, (1,) * parts)
    return [reshaped(op, "unpacked", t, (batch, rows, heads * size)) for t in pieces]


def _biased(op: OpContext, given: Sequence[Tensor], bias: int) -> list[Tensor]:
    """Return query, key and value plus their parts of the bias; those in heads have theirs."""
    first, *others = given
    size = first.shape[-1]
    last = [t.shape[-1] if len(t.shape) == 3 else t.shape[1] * t.shape[3] for t in others]
    pieces = _cut_bias(op, (size, *last), bias)
    return [
        (Expr(op, t) + piece).tensor if len(t.shape) == 3 else t
        for t, piece in zip(given, pieces, strict=True)
    ]


def _cut_bias(op: OpContext, sizes: Sequence[int], i: int) -> list[Tensor]:
    """Return the parts of the bias, input i: at import where it is known."""
    known = op.constant(i)
    if known is None or known.shape != (sum(sizes),):
        return cut(op, "bias", op.tensor(i), 0, sizes)
    parts = np.split(known, np.cumsum(sizes)[:-1])
    dtype = op.spec(i).dtype
    return [op.static(f"{n}_bias", part, dtype) for n, part in zip(NAMES, parts, strict=True)]
