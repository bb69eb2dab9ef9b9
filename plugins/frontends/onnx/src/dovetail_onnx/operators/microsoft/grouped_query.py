"""Attention whose heads of keys and values serve several heads of queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import value_of
from dovetail_onnx.operators._parts import (
    constant,
    reject_attributes,
    reject_inputs,
    value,
)
from dovetail_onnx.operators.microsoft._attended import attended
from dovetail_onnx.operators.microsoft._heads import cut, emit_joined, split_heads, with_past
from dovetail_onnx.operators.microsoft._masks import AttentionSizes, causal_bias
from dovetail_onnx.operators.microsoft._rotation import angles, rotated
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value

_CONSTANT = 0  # Pad's scheme
_PLAIN = "export the model with a plain cache of keys and values, in the type of the query"


@MICROSOFT.importer("GroupQueryAttention", versions=(1,))
def group_query_attention(op: OpContext) -> Sequence[Tensor | None]:
    """Products and Softmax for each head, of a prompt or of rows after a past that is full.

    Rows of a prompt beyond `seqlens_k` are padding, whose results are undefined: here they attend
    to the rows before them, as all others do.
    """
    _reject(op)
    query, key, values = _heads(op)
    past = _past_rows(op, query)
    if op.attr.integer("do_rotary", 0):
        query, key = _turned(op, query, key, past)
    key, present_key = _remembered(op, "keys", 3, key, past)
    values, present_values = _remembered(op, "values", 4, values, past)
    biases = [value(op, 10), _causal(op, query, key)]
    cap = op.attr.number("softcap", 0.0)
    y = attended(op, query, key, values, biases, softcap=cap, sink=_sink(op, query))
    return [emit_joined(op, y), present_key, present_values]


def _reject(op: OpContext) -> None:
    nothing = {"kv_cache_bit_width": 0, "sliding_window_cache": 0, "qk_output": 0}
    types = {"k_quant_type": "NONE", "v_quant_type": "NONE"}
    reject_attributes(op, {**nothing, **types}, _PLAIN)
    reject_inputs(op, {12: "k_scale", 13: "v_scale"}, _PLAIN)
    norms = {14: "q_norm_weight", 15: "k_norm_weight"}
    reject_inputs(op, norms, "leave SimplifiedLayerNormalization of query and key unfused")
    if op.has(3) != op.has(4):
        raise op.invalid("past_key and past_value must be given together")
    for i in (3, 4):
        if op.has(i) and len(op.spec(i).shape) != 4:
            raise op.invalid(f"past {op.spec(i).shape} must be (batch, heads, rows, size)")


def _heads(op: OpContext) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value as (batch, heads, rows, size)."""
    heads, groups = op.attr.integer("num_heads", 0), op.attr.integer("kv_num_heads", 0)
    if min(heads, groups) < 1 or heads % groups:
        raise op.invalid(f"num_heads {heads} is not a multiple of kv_num_heads {groups}")
    query = op.tensor(0)
    if len(query.shape) != 3:
        raise op.invalid(f"query {query.shape} must be (batch, rows, elements)")
    if op.has(1):
        given = [query, op.tensor(1), op.tensor(2)]
    else:
        size = query.shape[2] // (heads + 2 * groups)
        given = cut(op, "packed", query, 2, (heads * size, groups * size, groups * size))
    names, counts = ("query", "key", "value"), (heads, groups, groups)
    made = [split_heads(op, n, t, c) for n, t, c in zip(names, given, counts, strict=True)]
    if made[1].shape != made[2].shape or any(
        made[0].shape[axis] != made[1].shape[axis] for axis in (0, 2, 3)
    ):
        shapes = ", ".join(str(t.shape) for t in made)
        raise op.invalid(f"query, key and value do not match: heads of {shapes}")
    return made[0], made[1], made[2]


def _past_rows(op: OpContext, query: Tensor) -> int:
    """Return how many rows of the past are attended to: all or none.

    Raises:
        UnsupportedOpError: Only some are, or the number is not known.
    """
    held = op.spec(3).shape[2] if op.has(3) else 0
    if held == 0:
        return 0
    batch, _, rows, _ = query.shape
    total = op.need_ints(6, "total_sequence_length")
    if total == (rows,) and rows <= held:
        return 0  # a prompt, and a buffer for later
    full = held + rows - 1
    if total == (full + 1,) and (batch == 1 or set(op.need_ints(5, "seqlens_k")) == {full}):
        return held
    raise op.unsupported(
        f"unsupported partial use of a past of {held} rows: with {rows} new rows, attention is to "
        f"{total[0] if total else 'no'} rows",
        hint="convert the model for the prompt, or with a past of exactly the earlier rows",
    )


def _remembered(
    op: OpContext, suffix: str, i: int, x: Tensor, past: int
) -> tuple[Tensor, Tensor | None]:
    """Return the keys or values that are attended to, and the output that is the next past."""
    output = i - 2
    if past or not op.has(i) or op.spec(i).shape[2] <= x.shape[2]:
        seen = with_past(op, suffix, op.tensor(i) if past else None, x, output)
        return seen, seen if op.is_output_used(output) else None
    if not op.is_output_used(output):
        return x, None
    after = op.spec(i).shape[2] - x.shape[2]
    pads = ((0, 0), (0, 0), (0, after), (0, 0))
    made = op.emit(
        "Pad", [x], output=output, scheme=_CONSTANT, pad_amount=pads, pad_constant_value=0.0
    )
    return x, made


def _turned(op: OpContext, query: Tensor, key: Tensor, past: int) -> tuple[Tensor, Tensor]:
    """Return query and key with rotary embeddings."""
    batch, _, rows, _ = query.shape
    op.reserve_constant((2, rows))  # of 64 bits
    positions: Value = constant(op, "positions", np.arange(rows)[None] + past, DType.INT_64)
    if op.has(9) and past:
        positions = op.value(9)
    elif op.has(9):  # the first position of a prompt is the same for all sequences
        corner = [constant(op, "corner", ends, DType.INT_64) for ends in ((0, 0), (1, 1))]
        positions = (value_of(op, 9).apply("Slice", *corner) + positions).value
    if positions.shape not in ((1, rows), (batch, rows)):
        raise op.invalid(f"position_ids must have shape {(batch, rows)}, got {positions.shape}")
    turns = angles(op, (7, 8), positions, (positions.shape[0], 1, rows))
    interleaved = bool(op.attr.integer("rotary_interleaved", 0))
    return (
        rotated(op, "query", query, turns, interleaved=interleaved),
        rotated(op, "key", key, turns, interleaved=interleaved),
    )


def _causal(op: OpContext, query: Tensor, key: Tensor) -> Value | None:
    """Return the mask of later rows, and of those before a window; None if there are none."""
    window = op.attr.integer("local_window_size", -1)
    if not op.attr.integer("causal", 1):
        if window > 0:
            raise op.invalid(
                f"unsupported local_window_size {window} of an attention that is not causal"
            )
        return None
    sizes = AttentionSizes(query.shape[0], query.shape[2], key.shape[2])
    if sizes.queries == 1 and not 0 < window < sizes.keys:
        return None
    return causal_bias(op, sizes, query.dtype, window=window)


def _sink(op: OpContext, query: Tensor) -> Tensor | None:
    """Return (batch, heads, rows, 1) of scores of a position without a value, or None."""
    batch, heads, rows, _ = query.shape
    if op.has(11):
        if op.spec(11).shape != (heads,):
            raise op.invalid(f"head_sink must have shape ({heads},), got {op.spec(11).shape}")
        shapes = [(1, heads, 1, 1), (batch, heads, rows, 1)]
        column, whole = (constant(op, "sink_shape", s, DType.INT_64) for s in shapes)
        return value_of(op, 11).apply("Reshape", column).apply("Expand", whole).tensor
    if op.attr.integer("smooth_softmax", -1) == 1:
        op.reserve_constant((batch, heads, rows, 1))
        return op.static("sink", np.zeros((batch, heads, rows, 1), np.float32), query.dtype)
    return None
