"""Rotary embeddings written out, for backends without the op."""

from __future__ import annotations

from typing import Any

from dovetail.ir import Graph, Node, Spec, Tensor
from dovetail_opset.passes._gru import Step
from dovetail_opset.passes._rewrite import bound, first_input, is_any_float


def rotates_known_sizes(node: Node) -> bool:
    """Return whether a RotaryEmbedding is of floats with fixed shapes."""
    floats = (first_input(node), *node.inputs[1:3])
    return all(t is not None and is_any_float(t) and not any(t.dynamic) for t in floats)


def write_out_rotary_embedding(graph: Graph, node: Node, step: Step) -> None:
    """Add the nodes of a RotaryEmbedding: products of both halves with the cosines and sines."""
    op: Any = bound(node)
    x, positions = first_input(node), (*node.inputs, None)[3]
    batch, heads, steps, size = x.shape
    tables = []
    for table in node.inputs[1:3]:
        rows = table if positions is None else step("Gather", table, positions, axis=0)
        assert rows is not None  # the op requires both
        pairs = rows.shape[-1]
        tables.append(step("Reshape", rows, spec=Spec(x.dtype, (batch, 1, steps, pairs))))
    cosines, sines = tables
    if op.interleaved:
        a, b = (_part(step, x, i, 2 * pairs, 2) for i in range(2))
    else:
        a, b = (_part(step, x, i * pairs, (i + 1) * pairs) for i in range(2))
    first = step(
        "ElementWiseSubtract",
        step("ElementWiseMultiply", a, cosines),
        step("ElementWiseMultiply", b, sines),
    )
    second = step(
        "ElementWiseAdd",
        step("ElementWiseMultiply", b, cosines),
        step("ElementWiseMultiply", a, sines),
    )
    parts = [first, second]
    if op.interleaved:
        columns = Spec(x.dtype, (*first.shape, 1))
        both = step("Concat", *(step("Reshape", part, spec=columns) for part in parts), axis=4)
        if 2 * pairs == size:
            step("Reshape", both, outputs=node.outputs[0])
            return
        parts = [step("Reshape", both, spec=Spec(x.dtype, (batch, heads, steps, 2 * pairs)))]
    if 2 * pairs < size:
        parts.append(_part(step, x, 2 * pairs, size))
    step("Concat", *parts, axis=3, outputs=node.outputs[0])


def _part(step: Step, x: Tensor, begin: int, end: int, stride: int = 1) -> Tensor:
    """Return some elements of the last axis."""
    ranges = [*((0, size, 1) for size in x.shape[:-1]), (begin, end, stride)]
    return step("StridedSlice", x, ranges=ranges)
