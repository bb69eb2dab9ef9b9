"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, tanh
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import reshaped


def attended(
    op: OpContext,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    biases: Iterable[Value | None] = (),
    *,
    softcap: float = 0.0,
    sink: Tensor | None = None,
) -> Tensor:
    """Return softmax(query @ key.T * scale + biases) @ value, for each head.

    Every head of keys and values serves as many heads of queries, in order: these become rows.

    Args:
        op: The node, whose attribute `scale` may set the scale.
        query: (batch, heads, queries, size).
        key: (batch, fewer heads, keys, size).
        value: (batch, fewer heads, keys, other size).
        biases: Added to the scores, which they broadcast to; None adds nothing.
        softcap: Limit of the scores, applied with a tanh; 0 for no limit.
        sink: (batch, heads, queries, 1) of scores of a position that has no value.

    Returns:
        (batch, heads, queries, other size).

    Raises:
        FrontendError: The heads are empty.
    """
    batch, heads, queries, size = query.shape
    if size == 0:
        raise op.invalid("heads must have elements")
    groups, keys = key.shape[1:3]
    rows = heads // groups * queries
    grouped = reshaped(op, "grouped", query, (batch, groups, rows, size))
    scores = op.step("products", "MatMul", [grouped, key], transpose_in1=True)
    scores = reshaped(op, "scores", scores, (batch, heads, queries, keys))
    scale = op.attr.number("scale", 0.0) or 1 / math.sqrt(size)
    scaled = Expr(op, scores) * scale
    if softcap > 0:
        scaled = tanh(scaled * (1 / softcap)) * softcap
    for bias in biases:
        if bias is not None:
            scaled += bias
    weights = _softmax(op, scaled.tensor, sink)
    mixed = op.step(
        "mixed", "MatMul", [reshaped(op, "weights", weights, (batch, groups, rows, keys)), value]
    )
    return reshaped(op, "mixed_heads", mixed, (batch, heads, queries, value.shape[3]))


def _softmax(op: OpContext, scores: Tensor, sink: Tensor | None) -> Tensor:
    if sink is None:
        return op.step("softmax", "Softmax", [scores], axis=3)
    more = op.step("sunk", "Concat", [scores, sink], axis=3)
    weights = op.step("softmax", "Softmax", [more], axis=3)
    ranges = [(0, extent, 1) for extent in scores.shape]
    return op.step("kept", "StridedSlice", [weights], ranges=ranges)
