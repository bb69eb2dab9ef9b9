"""The body of a loop or scan as one step: the sequence that it reads, and its states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, NodeProto

from dovetail.ir import Array
from dovetail_onnx._subgraph_node import SubgraphNode
from dovetail_opset.importing.constant import Constant

# Iterations that are computed at once to find their number: few first, since most loops end soon.
# The last is the maximum number of steps of a layer, too.
_TURNS = (1 << 10, 1 << 16)
MOST_TURNS = _TURNS[-1]
# Operators that compute each element alone, so that one vector has the results of all iterations.
# fmt: off
_ELEMENTWISE = frozenset(
    (
        "Add", "And", "Cast", "Div", "Equal", "Greater", "GreaterOrEqual", "Identity", "Less",
        "LessOrEqual", "Max", "Min", "Mul", "Neg", "Not", "Or", "Sub", "Where", "Xor",
    )
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Sequenced:
    """A tensor of which each step reads one slice.

    Attributes:
        name: Its name.
        axis: The axis of the steps.
        positions: The index of each step's slice, up to `MOST_TURNS`.
        keeps_axis: Whether a slice keeps the axis.
    """

    name: str
    axis: int
    positions: Array | range
    keeps_axis: bool = False


@dataclass(frozen=True, slots=True)
class StepBody:
    """The part of a loop's or scan's body that computes with data.

    Attributes:
        graph: Its nodes and constants; the outputs are the new states and what it writes to
            sequences.
        sequence: The tensor that it reads slice by slice.
        part: The name of a slice in the body.
        states: Names of the states in the body.
        starts: Names of their initial values.
        names: Names of other outer values that the body has under names of its own.
    """

    graph: GraphProto
    sequence: Sequenced
    part: str
    states: Sequence[str]
    starts: Sequence[str]
    names: Mapping[str, str]


def part_of(graph: GraphProto, nodes: Iterable[NodeProto], outputs: Iterable[str]) -> GraphProto:
    """Return the nodes of a graph that outputs depend on, with the constants that they read."""
    wanted, needed = list(outputs), []
    read = set(wanted)
    for node in reversed(list(nodes)):
        if not read.isdisjoint(node.output):
            needed.append(node)
            read.update(node.input)
    part = GraphProto(name=graph.name)
    part.node.extend(reversed(needed))
    part.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
    for name in wanted:
        part.output.add(name=name)
    return part


class CountedLoop:
    """A Loop whose nodes either count or compute with data.

    What depends on the number of the iteration alone is computed for all iterations at once.

    Args:
        control: The Loop.
        graph: Its body, which has the right number of inputs and outputs.
        carried: Names of the initial values of what it carries.

    Attributes:
        states: The positions of the states among the carried values; empty before `body`.
        ends: Names of the last values of the others, by position; complete after `body`.
    """

    def __init__(self, control: SubgraphNode, graph: GraphProto, carried: Sequence[str]) -> None:
        self._control, self._graph, self._carried = control, graph, carried
        self._index, self._again, *self._inputs = (i.name for i in graph.input)
        self._condition, *self._results = (o.name for o in graph.output)
        # a sound body has Identity with one input and one output
        same = {n.output[0]: n.input[0] for n in graph.node if _is(n, "Identity")}
        pairs = zip(self._inputs, self._results, strict=False)
        kept = [i for i, (a, b) in enumerate(pairs) if a in (b, same.get(b))]
        self._names = {self._inputs[i]: carried[i] for i in kept}
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        # names that hide those around the body
        self._own = {i.name for i in graph.input}.difference(self._names)
        self._own.update(self._stored, *(node.output for node in graph.node))
        self._counters: dict[int, Array] = {}
        self._varying: set[str] = set()
        self._counting: list[NodeProto] = []
        self._data: list[NodeProto] = []
        self._reads: list[NodeProto] = []
        self.states: list[int] = []
        self.ends: dict[int, str] = {i: carried[i] for i in kept}

    def body(self, most: int | None, rows: Iterable[str]) -> StepBody | None:
        """Return the part that computes with data; None if it is no step over one sequence.

        Args:
            most: The trip count.
            rows: Names of what it writes to sequences.
        """
        if not self._sort() or len(self._reads) != 1:
            return None
        (read,) = self._reads
        name = self._names.get(read.input[0], read.input[0])
        value = self._control.reader.value(name)
        found = self._count(most, read.input[1])
        if found is None or value is None:
            return None
        positions, keeps_axis = found
        axis = next((a.i for a in read.attribute if a.name == "axis"), 0)
        rank = len(value.shape)
        if not -rank <= axis < rank or not _are_within(positions, value.shape[axis]):
            return None
        outputs = [*(self._results[i] for i in self.states), *rows]
        return StepBody(
            part_of(self._graph, self._data, outputs),
            Sequenced(name, axis % rank, positions, keeps_axis),
            read.output[0],
            [self._inputs[i] for i in self.states],
            [self._carried[i] for i in self.states],
            self._names,
        )

    def _sort(self) -> bool:
        """Sort carried values into counters and states; return whether every node fits these."""
        others = {
            i: self._control.reader.value(name)
            for i, name in enumerate(self._carried)
            if i not in self.ends
        }
        # a number of a higher rank is a state of one unit
        self._counters = {
            i: value.values
            for i, value in others.items()
            if isinstance(value, Constant) and value.values.size == 1 and len(value.shape) < 2
        }
        while self._sweep():
            wrong = [i for i in self._counters if self._results[i] not in self._varying]
            if not wrong:
                self.states = [i for i in others if i not in self._counters]
                return True
            for i in wrong:
                del self._counters[i]
        return False

    def _sweep(self) -> bool:
        """Sort nodes, and names that vary without data; return whether there are no others."""
        varying = self._varying = {
            self._index,
            self._again,
            *(self._inputs[i] for i in self._counters),
        }
        self._counting, self._data, self._reads = [], [], []
        for node in self._graph.node:
            if varying.isdisjoint(node.input):
                self._data.append(node)
            elif _is(node, "Gather") and node.input[0] not in self._own:
                self._reads.append(node)
            elif _is(node, *_ELEMENTWISE) and all(
                name in varying or self._is_number(name) for name in node.input
            ):
                self._counting.append(node)
                varying.update(node.output)
            else:
                return False
        return True

    def _is_number(self, name: str) -> bool:
        if name in self._stored:
            return int(np.prod(self._stored[name].dims)) == 1
        value = self._known(name)
        return value is not None and value.size == 1

    def _known(self, name: str) -> Array | None:
        if name in self._own:
            return None
        value = self._control.reader.value(self._names.get(name, name))
        return value.values if isinstance(value, Constant) else None

    def _count(self, most: int | None, position: str) -> tuple[Array, bool] | None:
        """Compute the counters; return all positions, and whether one is a vector.

        None if the counters do not count evenly, or too far.
        """
        first = self._computed(position, np.asarray(0, np.int64), self._counters)
        if first is None:
            return None
        if any(first[self._results[i]].shape != v.shape for i, v in self._counters.items()):
            return None
        if first[position].ndim > 1:
            return None  # a slice would have more axes
        turns = most
        for limit in _TURNS:
            count = limit if most is None else min(most, limit)
            evenly = {i: self._evenly(i, first, count) for i in self._counters}
            found = self._computed(position, np.arange(count, dtype=np.int64), evenly)
            if found is None or found[self._condition].dtype != np.bool_:
                return None
            found = {n: np.broadcast_to(values.reshape(-1), count) for n, values in found.items()}
            going = found[self._condition]
            if not going.all():
                turns = int(going.argmin()) + 1
            if turns is not None and turns <= count:
                break
        else:
            return None
        for i, values in evenly.items():
            after = found[self._results[i]][:turns]
            counted = np.concatenate([self._counters[i].reshape(1), after[:-1]])
            if not np.array_equal(counted, values[:turns]):
                return None
            last = np.asarray(after[-1]).reshape(self._counters[i].shape)
            self.ends[i] = self._control.constant(f"end{i}", last)
        return np.asarray(found[position][:turns]), first[position].ndim == 1

    def _evenly(self, i: int, first: Mapping[str, Array], count: int) -> Array:
        """Return a counter before each iteration if each adds what the first one does."""
        start = self._counters[i].reshape(())
        if start.dtype.kind not in "iuf":
            return np.full(count, start)
        step = first[self._results[i]].reshape(()) - start
        return np.asarray(start + step * np.arange(count)).astype(start.dtype)

    def _computed(
        self, position: str, index: Array, counters: Mapping[int, Array]
    ) -> dict[str, Array] | None:
        """Return the condition, the position and the counters after each iteration, by name."""
        outputs = [self._condition, position, *(self._results[i] for i in counters)]
        if any(name in self._own and name not in self._varying for name in outputs):
            return None  # data decide
        given = {self._index: index, self._again: np.asarray(True)}
        given |= {self._inputs[i]: values for i, values in counters.items()}
        constants = {name: Constant.of(values, name) for name, values in given.items()}
        part = part_of(self._graph, self._counting, outputs)
        found = self._control.read_apart(part, {}, constants, self._names)
        values = [value for value in found.values if isinstance(value, Constant)]
        if len(values) < len(outputs):
            return None
        return {name: each.values for name, each in zip(outputs, values, strict=True)}


def _is(node: NodeProto, *names: str) -> bool:
    """Return whether a node's operator is one of ONNX's own."""
    return node.domain == "" and node.op_type in names


def _are_within(positions: Array, count: int) -> bool:
    inside: bool = np.all((positions >= 0) & (positions < count)).item()
    return positions.dtype.kind == "i" and inside
