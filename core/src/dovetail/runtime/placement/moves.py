"""Moves of nodes to neighbouring parts, where fewer bytes then pass from part to part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from dovetail.runtime.placement.flow import Flow, ordered, seam_bytes
from dovetail.runtime.placement.partition import merged

MayRun = Callable[[int, int], bool]

# Nodes that a part may lose: moves find a better place for a cut, they do not carry a part away.
MOST = 8


def moved(
    flow: Flow, owner: Sequence[int], part: Sequence[int], may_run: MayRun
) -> tuple[list[int], list[int]]:
    """Return owners and parts after all moves that save bytes; there are never more parts.

    A node moves together with all nodes of its part that depend on it, to a part that reads from
    them, or with all that it depends on, to a part that they read from. Each part loses `MOST`
    nodes at most.

    Args:
        flow: The data flow.
        owner: The backend of each node.
        part: The part of each node.
        may_run: Whether a node may run on a backend, both by index.

    Returns:
        The backend and the part of each node; parts are numbered in an order in which they can run.
    """
    moves = _Moves(flow, owner, part, may_run)
    while max(moves.part, default=0) and moves.sweep():
        moves.part = merged(flow, moves.owner, moves.part)
    return moves.owner, moves.part


class _Moves:
    """Backends and parts of nodes that move."""

    def __init__(
        self, flow: Flow, owner: Sequence[int], part: Sequence[int], may_run: MayRun
    ) -> None:
        self._flow = flow
        self.owner = list(owner)
        self.part = list(part)
        self._may_run = may_run
        self._origin = tuple(part)
        self._lost = Counter[int]()

    def sweep(self) -> bool:
        """Try to move each node once; return whether any has moved."""
        has_moved = False
        for links in (self._flow.after, self._flow.before):
            for i in range(self._flow.count):
                group = self._group(links, i)
                has_moved |= any(self._move(group, to) for to in self._targets(links, group))
        return has_moved

    def _group(self, links: Sequence[Collection[int]], i: int) -> list[int]:
        """Return node i and all nodes of its part that links lead to; empty if they are too many.

        Args:
            links: The nodes before or after each node.
            i: The node.
        """
        group = {i: None}
        for node in (pending := [i]):  # grows meanwhile
            for other in links[node]:
                if self.part[other] == self.part[i] and other not in group:
                    group[other] = None
                    pending.append(other)
            if len(group) > MOST:
                return []
        return list(group)

    def _targets(self, links: Sequence[Collection[int]], group: Sequence[int]) -> Iterator[int]:
        """Yield a node of each part that a group may move to."""
        others = {j for node in group for j in links[node] if self.part[j] != self.part[node]}
        for target in {self.part[j]: j for j in sorted(others)}.values():
            if all(self._may_run(node, self.owner[target]) for node in group):
                yield target

    def _move(self, group: Sequence[int], target: int) -> bool:
        """Move nodes to the part of another if this saves bytes and an order remains."""
        lost = self._lost + Counter(self._origin[node] for node in group)
        if max(lost.values()) > MOST:
            return False
        links = list(dict.fromkeys(link for node in group for link in self._flow.touching[node]))
        before, old = seam_bytes(links, self.part), self.part[group[0]]
        for node in group:
            self.part[node] = self.part[target]
        if seam_bytes(links, self.part) < before and ordered(self._flow, self.part) is not None:
            for node in group:
                self.owner[node] = self.owner[target]
            self._lost = lost
            return True
        for node in group:
            self.part[node] = old
        return False
