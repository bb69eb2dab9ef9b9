"""Folding of reversals before and after recurrent layers into their direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Graph, Node, Tensor
from dovetail_opset._package import is_op, nodes_of, schema_of
from dovetail_opset.ops.recurrent import Direction
from dovetail_opset.passes._rewrite import bound, bypass, first_input, is_constant, is_inner
from dovetail_opset.passes.dead_code import DeadCode


@dataclass(frozen=True, slots=True)
class FoldReversals:
    """Reverse the direction of an Lstm or Gru instead of the sequence that it reads.

    Keras exports the backward direction of a layer as a forward layer between two reversals. A
    layer stays as it is if a node other than a reversal or a slice of one step reads its sequence.
    """

    name: str = "fold-reversals"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        found = list(nodes_of(graph, "Lstm", "Gru"))
        changed = any([_fold(graph, node) for node in found])
        if changed:
            DeadCode().run(graph)
        return changed


def _fold(graph: Graph, node: Node) -> bool:
    layer: Any = bound(node)
    x, schema = first_input(node), schema_of(node)
    before = graph.producer(x)
    if layer is None or schema is None or before is None or len(x.shape) != 3:
        return False
    time = 0 if layer.time_major else 1
    sequence = node.outputs[0]
    readers = graph.consumers(sequence)
    if not _reverses(before, time) or not is_inner(sequence) or any(x.dynamic):
        return False
    if not all(_can_turn(reader, sequence, time, readers) for reader in readers):
        return False
    node.params["direction"] = schema.params["direction"].param_of(
        Direction.FORWARD if layer.direction is Direction.REVERSE else Direction.REVERSE, node.name
    )
    graph.set_inputs(node, [first_input(before), *node.inputs[1:]])
    node.sources = tuple(dict.fromkeys((*before.sources, *node.sources)))
    for reader in readers:
        if _step_of(reader, time) is None:
            bypass(graph, reader)  # cannot fail after `_can_turn`
        else:
            _turn(reader, time)
    return True


def _can_turn(reader: Node, sequence: Tensor, time: int, readers: Sequence[Node]) -> bool:
    if first_input(reader) is not sequence:
        return False
    if _step_of(reader, time) is not None:
        return True
    # an output of the graph replaces the sequence, which then has no other readers
    return _reverses(reader, time) and (is_inner(reader.outputs[0]) or len(readers) == 1)


def _reverses(node: Node, axis: int) -> bool:
    """Return whether a node reverses the order along an axis, and does nothing else."""
    op: Any = bound(node)
    if op is None or first_input(node).spec != node.outputs[0].spec:
        return False
    count = first_input(node).shape[axis]
    if is_op(node, "StridedSlice"):
        ranges = [(0, size, 1) for size in first_input(node).shape]
        ranges[axis] = (count - 1, -1, -1)
        masks = op.begin_mask, op.end_mask, op.shrink_axes, op.new_axes_mask
        return not any(masks) and op.ranges.tolist() == [list(row) for row in ranges]
    if not is_op(node, "Gather") or op.axis != axis:
        return False
    indices = node.inputs[1]
    return (
        indices is not None
        and is_constant(indices)
        and np.array_equal(indices.values(), np.arange(count)[::-1])
    )


def _step_of(node: Node, axis: int) -> int | None:
    """Return the index that a slice takes alone along an axis; None for another node."""
    op: Any = bound(node)
    if op is None or not is_op(node, "StridedSlice"):
        return None
    if any((op.begin_mask, op.end_mask, op.new_axes_mask)):
        return None
    begin, end, stride = op.ranges[axis].tolist()
    return int(begin) if (end, stride) == (begin + 1, 1) else None


def _turn(node: Node, axis: int) -> None:
    """Let a slice of one step take the step that is as far from the other end."""
    op: Any = bound(node)
    schema = schema_of(node)
    if schema is None:
        raise AssertionError(f"{node.where} is no slice")
    ranges = np.array(op.ranges)
    begin = first_input(node).shape[axis] - 1 - int(ranges[axis, 0])
    ranges[axis] = begin, begin + 1, 1
    node.params["ranges"] = schema.params["ranges"].param_of(ranges, node.name)
