"""The data flow between nodes, and parts of it: what partitioning needs to know of a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dovetail.ops import CheckedGraph


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A tensor between nodes. Compared by identity.

    Attributes:
        writer: Index of the node that writes it.
        readers: Indices of the nodes that read it; at least one.
        nbytes: Size of its stored values.
    """

    writer: int
    readers: tuple[int, ...]
    nbytes: int = 1


@dataclass(frozen=True, slots=True)
class Flow:
    """The links between nodes, whose indices are in topological order.

    Attributes:
        count: Number of nodes.
        links: The links.
        before, after: For each node, those that it reads from, and those that read from it.
        touching: For each node, the links that it writes or reads.
    """

    count: int
    links: tuple[Link, ...]
    before: tuple[frozenset[int], ...] = field(init=False)
    after: tuple[frozenset[int], ...] = field(init=False)
    touching: tuple[tuple[Link, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        before: list[set[int]] = [set() for _ in range(self.count)]
        after: list[set[int]] = [set() for _ in range(self.count)]
        touching: list[list[Link]] = [[] for _ in range(self.count)]
        for link in self.links:
            after[link.writer].update(link.readers)
            touching[link.writer].append(link)
            for reader in link.readers:
                before[reader].add(link.writer)
                touching[reader].append(link)
        for name, found in (("before", before), ("after", after)):
            object.__setattr__(self, name, tuple(map(frozenset, found)))
        object.__setattr__(self, "touching", tuple(map(tuple, touching)))

    @classmethod
    def of(cls, graph: CheckedGraph) -> Flow:
        """Return the data flow of a graph."""
        index = {view.node: i for i, view in enumerate(graph.nodes)}
        links = []
        for i, view in enumerate(graph.nodes):
            for tensor in view.node.outputs:
                readers = tuple(index[node] for node in graph.consumers(tensor))
                if readers:
                    nbytes = math.prod(tensor.shape) * tensor.dtype.storage.itemsize
                    links.append(Link(i, readers, nbytes))
        return cls(len(graph.nodes), tuple(links))


def seam_bytes(links: Sequence[Link], part: Sequence[int]) -> int:
    """Return the bytes that links pass from part to part: once for each other part that reads.

    Args:
        links: The links.
        part: The part of each node.
    """
    total = 0
    for link in links:
        others = {part[reader] for reader in link.readers}
        others.discard(part[link.writer])
        total += link.nbytes * len(others)
    return total


def ordered(flow: Flow, part: Sequence[int]) -> list[int] | None:
    """Return parts in an order in which they can run; None if they wait for each other.

    Parts for which there is an order are convex: a path between two nodes of a part has no other
    nodes.

    Args:
        flow: The data flow.
        part: The part of each node, any numbers.
    """
    after: dict[int, set[int]] = {p: set() for p in part}
    for link in flow.links:
        own = part[link.writer]
        after[own].update(part[reader] for reader in link.readers if part[reader] != own)
    waiting = dict.fromkeys(after, 0)
    for followers in after.values():
        for follower in followers:
            waiting[follower] += 1
    order = [p for p, count in waiting.items() if not count]
    for done in order:  # grows meanwhile
        for follower in sorted(after[done]):
            waiting[follower] -= 1
            if not waiting[follower]:
                order.append(follower)
    return order if len(order) == len(after) else None
