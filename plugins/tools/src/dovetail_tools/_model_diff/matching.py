"""Pairs of nodes of two graphs: by name, by source, then by their position in the topology.

A name of another op counts only where no source has a node of the same op: a pass may insert a
node under the name of the one that it moves.
Each step takes time linear in the number of nodes and of their inputs.
"""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from dovetail.ir import Graph, Node, Tensor


class Way(enum.StrEnum):
    """The ways of matching two nodes."""

    NAME = "name"
    SOURCE = "source"
    POSITION = "position"


@dataclass(slots=True)
class Matches:
    """The nodes of two graphs, in pairs.

    Attributes:
        nodes: Nodes of the first graph, with their counterparts.
        inputs: Inputs of the first graph, with their counterparts.
        ways: How each node of the first graph was matched.
        used: The matched nodes of the second graph.
    """

    nodes: dict[Node, Node] = field(default_factory=dict)
    inputs: dict[Tensor, Tensor] = field(default_factory=dict)
    ways: dict[Node, Way] = field(default_factory=dict)
    used: set[Node] = field(default_factory=set)

    def add(self, first: Node, second: Node, way: Way) -> None:
        """Add a pair."""
        self.nodes[first] = second
        self.ways[first] = way
        self.used.add(second)


def match_nodes(first: Graph, second: Graph) -> Matches:
    """Return pairs of nodes of two graphs."""
    found = Matches(inputs=_pair_tensors(first.inputs, second.inputs))
    _match_names(first, second, found, same_op=True)
    _match_sources(first, second, found)
    _match_names(first, second, found, same_op=False)
    for same_op in (True, False):
        _Walk(first, second, found, same_op=same_op).run()
    return found


def _pair_tensors(first: Iterable[Tensor], second: Iterable[Tensor]) -> dict[Tensor, Tensor]:
    """Return tensors with those of the same name, and the others in their order."""
    names = {tensor.name: tensor for tensor in second}
    pairs = {tensor: names.pop(tensor.name) for tensor in first if tensor.name in names}
    others = [tensor for tensor in first if tensor not in pairs]
    return pairs | dict(zip(others, names.values(), strict=False))


def _match_names(first: Graph, second: Graph, found: Matches, *, same_op: bool) -> None:
    names = {node.name: node for node in second.nodes if node not in found.used}
    for node in first.nodes:
        other = names.get(node.name)
        if node in found.nodes or other is None:
            continue
        if _op(node) == _op(other) or not same_op:
            found.add(node, other, Way.NAME)


def _op(node: Node) -> tuple[str, str]:
    return node.package, node.op_type


def _match_sources(first: Graph, second: Graph, found: Matches) -> None:
    waiting: dict[tuple[str, str, str], deque[Node]] = defaultdict(deque)
    for node in second.nodes:
        if node not in found.used:
            for source in node.sources:
                waiting[source, node.package, node.op_type].append(node)
    for node in first.nodes:
        if node in found.nodes:
            continue
        for source in node.sources:
            queue = waiting.get((source, node.package, node.op_type), deque())
            while queue and queue[0] in found.used:
                queue.popleft()
            if queue:
                found.add(node, queue.popleft(), Way.SOURCE)
                break


class _Walk:
    """Matches the neighbors of what is matched, and theirs.

    Args:
        first: A graph.
        second: Another one.
        found: The pairs, to which others are added.
        same_op: Whether only nodes of the same op are matched.
    """

    def __init__(self, first: Graph, second: Graph, found: Matches, *, same_op: bool) -> None:
        self._first, self._second = first, second
        self._found = found
        self._same_op = same_op
        self._queue = deque(found.nodes.items())

    def run(self) -> None:
        """Match until nothing is left that has matched neighbors."""
        for ours, theirs in self._found.inputs.items():
            self._readers(ours, theirs)
        for ours, theirs in _pair_tensors(self._first.outputs, self._second.outputs).items():
            self._writers(ours, theirs)
        while self._queue:
            first, second = self._queue.popleft()
            for ours, theirs in zip(first.outputs, second.outputs, strict=False):
                self._readers(ours, theirs)
            for one, other in zip(first.inputs, second.inputs, strict=False):
                if one is not None and other is not None:
                    self._writers(one, other)

    def _writers(self, ours: Tensor, theirs: Tensor) -> None:
        first, second = self._first.producer(ours), self._second.producer(theirs)
        if first is None or second is None:
            return
        if first.outputs.index(ours) == second.outputs.index(theirs):
            self._match(first, second)

    def _readers(self, ours: Tensor, theirs: Tensor) -> None:
        one = self._grouped(self._first, ours, self._found.nodes.__contains__)
        other = self._grouped(self._second, theirs, self._found.used.__contains__)
        for key, nodes in one.items():
            others = other.get(key, [])
            if self._same_op or len(nodes) == len(others) == 1:
                for first, second in zip(nodes, others, strict=False):
                    self._match(first, second)

    def _grouped(
        self, graph: Graph, tensor: Tensor, is_matched: Callable[[Node], bool]
    ) -> dict[Hashable, list[Node]]:
        """Return the unmatched readers of a tensor by the input that reads it, and by op."""
        found: dict[Hashable, list[Node]] = defaultdict(list)
        for node in graph.consumers(tensor):
            if not is_matched(node):
                op = _op(node) if self._same_op else None
                found[op, node.inputs.index(tensor)].append(node)
        return found

    def _match(self, first: Node, second: Node) -> None:
        if first in self._found.nodes or second in self._found.used:
            return
        if self._same_op and _op(first) != _op(second):
            return
        self._found.add(first, second, Way.POSITION)
        self._queue.append((first, second))
