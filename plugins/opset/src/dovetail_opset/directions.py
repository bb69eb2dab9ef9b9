"""The nodes of a recurrent layer: one, or two that process the same sequence in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail.runtime.plan import KernelCall


@dataclass(frozen=True, slots=True)
class Direction:
    """A node that processes the sequence in one direction: the call's head, or its fused sibling.

    Attributes:
        call: The call.
        view: The node.
        operands: For each of its inputs, the index among the inputs of the call.
    """

    call: KernelCall
    view: NodeView
    operands: Sequence[int | None]

    @property
    def op(self) -> Any:
        """The node's op with its params, an instance of the registered class."""
        return self.view.op

    @property
    def way(self) -> int:
        """0 forward, 1 reverse."""
        return int(self.op.direction)

    def index(self, port: int) -> int | None:
        """Return the index of the call's input, or None if the input is missing."""
        found = self.operands[port] if port < len(self.operands) else None
        return None if found is None or not self.call.has(found) else found

    def has(self, port: int) -> bool:
        """Return whether the node has an input."""
        return self.index(port) is not None

    def static(self, port: int) -> Array | None:
        """Return the elements of a constant input, else None."""
        index = self.index(port)
        return None if index is None else self.call.static(index)

    def stacked(self, ports: Sequence[int]) -> Array:
        """Return the weights or biases of gates as (gates, units, ...); missing biases are 0."""
        units = self.call.spec(1).shape[0]
        found = [self.static(port) for port in ports]
        return np.stack([np.zeros(units, np.float32) if each is None else each for each in found])

    def is_supported(self, known: Sequence[int], unsupported: Sequence[int]) -> bool:
        """Return whether the `known` inputs are constant and the unsupported ones missing."""
        are_known = all(self.static(port) is not None for port in known if self.has(port))
        return are_known and not any(self.has(port) for port in unsupported)


def can_fuse_sibling(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a node is the other direction of the layer, or concatenates both results."""
    op: Any = node.op
    heads: list[Any] = [view.op for view in group]
    if len(group) == 1 and node.op_type == group[0].op_type:
        same_form = heads[0].time_major == op.time_major and group[0].outs[0] == node.outs[0]
        return same_form and heads[0].direction != op.direction
    if len(group) != 2 or node.op_type != "Concat":
        return False
    results = [view.node.outputs[0] for view in group]
    if heads[0].direction:  # the reverse direction is first
        results.reverse()
    return list(node.node.inputs) == results and op.axis == len(results[0].shape) - 1


def directions_of(call: KernelCall) -> tuple[Direction, ...]:
    """Return the directions of the layer, forward before reverse."""
    found = [Direction(call, call.head, range(len(call.head.node.inputs)))]
    found += [Direction(call, node.view, node.operands) for node in call.fused if not node.joins]
    return tuple(sorted(found, key=lambda each: each.way))
