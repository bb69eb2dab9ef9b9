"""The nodes of a recurrent layer: one, or two that go over the same sequence in opposite ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.contract import NodeView
from dovetail.runtime.plan import KernelCall
from dovetail_onednn.steps import is_float32


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a primitive's operands are among the inputs and outputs of an op.

    Attributes:
        inputs, recurrent: Weights of x and of h by gate, in the library's order.
        biases: By gate likewise.
        states: The initial ones.
        last: Outputs: those after the last step.
        left_out: Inputs that it has nothing for.
    """

    inputs: tuple[int, ...]
    recurrent: tuple[int, ...]
    biases: tuple[int, ...]
    states: tuple[int, ...]
    last: tuple[int, ...]
    left_out: tuple[int, ...]

    @property
    def weights(self) -> tuple[int, ...]:
        """All that must be known."""
        return (*self.inputs, *self.recurrent, *self.biases)


@dataclass(frozen=True, slots=True)
class Direction:
    """A node that goes over the sequence one way: the call's head, or the twin that it absorbed.

    Attributes:
        call: The call.
        view: The node.
        operands: For each of its inputs, the index of the call's.
    """

    call: KernelCall
    view: NodeView
    operands: Sequence[int | None]

    @property
    def op(self) -> Any:
        """The node's op with its params; its class is the registered one."""
        return self.view.op

    @property
    def way(self) -> int:
        """0 forward, 1 reverse."""
        return int(self.op.direction)

    def index(self, port: int) -> int | None:
        """Return the index of the call's input, None for one that is left out."""
        found = self.operands[port] if port < len(self.operands) else None
        return None if found is None or not self.call.has(found) else found

    def has(self, port: int) -> bool:
        """Return whether an input is there."""
        return self.index(port) is not None

    def static(self, port: int) -> Array | None:
        """Return the elements of an input that are known."""
        index = self.index(port)
        return None if index is None else self.call.static(index)

    def stacked(self, ports: Sequence[int]) -> Array:
        """Return the weights or biases of gates as (gates, units, ...); left-out biases are 0."""
        units = self.call.spec(1).shape[0]
        found = [self.static(port) for port in ports]
        return np.stack([np.zeros(units, np.float32) if each is None else each for each in found])

    def is_made_for(self, known: Sequence[int], left_out: Sequence[int]) -> bool:
        """Return whether these inputs, where they are there, are known, and others left out."""
        are_known = all(self.static(port) is not None for port in known if self.has(port))
        return are_known and not any(self.has(port) for port in left_out)


def absorbs_twin(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a node is the layer's other direction, or then what puts both side by side."""
    op: Any = node.op  # its class is the op set's, which this package does not import
    heads: list[Any] = [view.op for view in group]
    if len(group) == 1 and node.op_type == group[0].op_type:
        same_form = heads[0].time_major == op.time_major and group[0].outs[0] == node.outs[0]
        return same_form and heads[0].direction != op.direction
    if len(group) != 2 or node.op_type != "Concat":
        return False
    results = [view.node.outputs[0] for view in group]
    if heads[0].direction:  # the reverse one stands first
        results.reverse()
    return list(node.node.inputs) == results and op.axis == len(results[0].shape) - 1


def directions_of(call: KernelCall) -> tuple[Direction, ...]:
    """Return the layer's directions, forward before reverse."""
    found = [Direction(call, call.head, range(len(call.head.node.inputs)))]
    found += [Direction(call, tail.view, tail.operands) for tail in call.fused if not tail.joins]
    return tuple(sorted(found, key=lambda each: each.way))


def are_made_for(directions: Sequence[Direction], ports: Ports) -> bool:
    """Return whether all is FLOAT_32 with elements, weights are known and some inputs left out."""
    known = ports.weights
    if len(directions) > 1:  # states of both are one memory
        known += ports.states
    return is_float32(directions[0].call) and all(
        each.is_made_for(known, ports.left_out) for each in directions
    )
