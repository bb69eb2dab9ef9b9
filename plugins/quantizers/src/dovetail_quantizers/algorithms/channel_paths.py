"""Consumers of channels, through ops that pass on positive factors."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from dovetail.ir import DType, Graph, Node, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail_opset import is_op
from dovetail_quantizers.algorithms.linear_layer import LINEAR, integers, number
from dovetail_quantizers.planning.rules import op_of

POOLS = ("PoolMax2d", "PoolMax3d", "PoolAvg2d", "PoolAvg3d")
_QUOTED = re.compile("'[^']*'")
_LISTED = 3
_REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceSum")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A layer that reads the followed channels.

    Attributes:
        node: The layer.
        data: Its data; along `axis` the channels repeat.
        axis: The axis that it sums over.
        path: The nodes before it.
    """

    node: Node
    data: Tensor
    axis: int
    path: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Channels:
    """Channels to follow.

    Attributes:
        graph: The graph.
        ops: Finds its ops.
        count: Number of channels.
        relu6: Whether Relu6 counts as Relu.
        branches: Whether several nodes may read them.
        given: Names of tensors with given encodings, which are valid only for their current values.
    """

    graph: Graph
    ops: OpRegistry
    count: int
    relu6: bool = False
    branches: bool = False
    given: Collection[str] = ()

    def arrivals(self, tensor: Tensor, axis: int, path: tuple[Node, ...] = ()) -> list[Arrival]:
        """Return all layers that read the channels along an axis of a tensor.

        Raises:
            AstrayError: Other ops read them, too.
        """
        if tensor.kind is not TensorKind.NATIVE:
            raise AstrayError(f"'{tensor.source}' is an output of the graph")
        if tensor.dtype is not DType.FLOAT_32:
            raise AstrayError(f"'{tensor.source}' is {tensor.dtype.name}, not FLOAT_32")
        if tensor.name in self.given:
            raise AstrayError(f"an encoding is given for '{tensor.source}'")
        if not self.count:
            raise AstrayError("the layer has no output channels")
        readers = self.graph.consumers(tensor)
        if not readers:
            raise AstrayError("nothing reads the output")
        if len(readers) > 1 and not self.branches:
            raise AstrayError(f"{len(readers)} nodes read '{tensor.source}'")
        return [found for each in readers for found in self._through(each, tensor, axis, path)]

    def _through(
        self, node: Node, tensor: Tensor, axis: int, path: tuple[Node, ...]
    ) -> Iterator[Arrival]:
        if is_op(node, *LINEAR) and node.inputs[0] is tensor:
            if not self._sums_over(node, axis):
                raise AstrayError(f"{title(node)} does not sum over its channels")
            yield Arrival(node, tensor, axis, path)
            return
        moved = moved_axis(node, axis, self.count, self.ops, relu6=self.relu6)
        if moved is None:
            raise AstrayError(f"{title(node)} does not pass on factors of channels")
        yield from self.arrivals(node.outputs[0], moved, (*path, node))

    def _sums_over(self, node: Node, axis: int) -> bool:
        data, weight = node.inputs[:2]
        if axis != summed_axis(node) or data is weight or weight is None:
            return False
        # rows that FullyConnected cuts its data into may begin with any channel
        return node.op_type != "FullyConnected" or weight.shape[1] % self.count == 0


class AstrayError(Exception):
    """Channels reach an op that does not pass on factors; the message names it."""


def title(node: Node) -> str:
    """Return the op of a node and its name in the user's model."""
    return f"{node.op_type} '{node.sources[0] if node.sources else node.name}'"


def unchanged_notes(reasons: Iterable[tuple[Node, str]]) -> list[str]:
    """Return notes on layers that an algorithm leaves alone.

    Args:
        reasons: Layers with the reason of each. More than three that differ only in names have one
            note, with the first of them.
    """
    alike: dict[str, list[tuple[Node, str]]] = {}
    for node, why in reasons:
        alike.setdefault(_QUOTED.sub("", why), []).append((node, why))
    notes = []
    for found in alike.values():
        shown = found if len(found) <= _LISTED else found[:1]
        for node, why in shown:
            notes.append(f"{title(node)} is unchanged: {why}")
        if more := len(found) - len(shown):
            notes[-1] += f"; so are {more} more for such a reason, as {title(found[1][0])}"
    return notes


def summed_axis(node: Node) -> int:
    """Return the axis of a layer's data that it sums over."""
    data = node.inputs[0]
    assert data is not None
    return len(data.shape) - (2 if number(node, "transpose_in0") else 1)


def is_relu(node: Node, ops: OpRegistry) -> bool:
    """Return whether a node is max(x, 0)."""
    op = op_of(node, ops)
    return op.clips and op.value_range == (0, math.inf)


def is_relu6(node: Node, ops: OpRegistry) -> bool:
    """Return whether a node is min(max(x, 0), 6)."""
    op = op_of(node, ops)
    return op.clips and op.value_range == (0, 6)


def passes(node: Node, ops: OpRegistry) -> bool:
    """Return whether a node passes on factors of channels along some axis."""
    return is_relu(node, ops) or is_op(node, *POOLS, *_REDUCTIONS, "Transpose", "Reshape")


def moved_axis(node: Node, axis: int, count: int, ops: OpRegistry, *, relu6: bool) -> int | None:
    """Return the axis of a node's output for the channels along an axis of its input.

    A factor of a channel multiplies its output. None if the node has no such axis.
    """
    if not node.inputs or node.inputs[0] is None:
        return None
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if is_relu(node, ops) or (relu6 and is_relu6(node, ops)):
        return axis
    if is_op(node, *POOLS):
        return axis if axis == len(before) - 1 else None
    if is_op(node, "Transpose"):
        return integers(node, "perm").index(axis)
    if is_op(node, *_REDUCTIONS):
        over = {a % len(before) for a in integers(node, "axes")}
        removed = 0 if number(node, "keep_dims") else sum(a < axis for a in over)
        return None if axis in over else axis - removed
    if is_op(node, "Reshape"):
        return _reshaped(before, after, axis, count)
    return None


def _reshaped(before: tuple[int, ...], after: tuple[int, ...], axis: int, count: int) -> int | None:
    within = math.prod(before[axis + 1 :])
    for i, size in enumerate(after):
        if math.prod(after[i + 1 :]) == within and size and size % count == 0:
            return i
    return None
