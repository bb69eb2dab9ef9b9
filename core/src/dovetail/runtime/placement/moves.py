"""Moves of nodes to neighboring parts, where fewer bytes then pass from part to part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from dovetail.runtime.placement.flow import Flow, seam_bytes
from dovetail.runtime.placement.partition import merged, numbered, partition

MayRun = Callable[[int, int], bool]

# Nodes that a part may lose: moves improve a cut, they do not take a part away.
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
        moves.part = _joined(flow, moves.owner, moves.part)
    return moves.owner, moves.part


def _joined(flow: Flow, owner: Sequence[int], part: Sequence[int]) -> list[int]:
    """Return parts after moves, where some have become empty and their neighbors can be one.

    A new partition is quick to find, but could be worse than these parts, merged.
    """
    again, part = partition(flow, owner), numbered(flow, part)
    is_better = max(again) <= max(part) and (
        seam_bytes(flow.links, again) <= seam_bytes(flow.links, part)
    )
    return again if is_better else merged(flow, owner, part)


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
        for links, sign in ((self._flow.after, 1), (self._flow.before, -1)):
            for i in range(self._flow.count):
                group = self._group(links, i)
                target = self._target(links, group, sign)
                if target is not None and self._move(group, target):
                    has_moved = True
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

    def _target(
        self, links: Sequence[Collection[int]], group: Sequence[int], sign: int
    ) -> int | None:
        """Return a node of the part that a group may move to: the nearest that links lead to.

        There the parts can still run in the order of their numbers; in a part further away, the
        group would come after nodes that read from it, or before nodes that it reads from.

        Args:
            links: The nodes before or after each node.
            group: The nodes to move.
            sign: 1 if links lead to later parts, -1 if to earlier ones.
        """
        others = {j for node in group for j in links[node] if self.part[j] != self.part[node]}
        target = min(others, key=lambda j: (sign * self.part[j], j), default=None)
        if target is None or not all(self._may_run(i, self.owner[target]) for i in group):
            return None
        return target

    def _move(self, group: Sequence[int], target: int) -> bool:
        """Move nodes to the part of another node if this saves bytes."""
        lost = self._lost + Counter(self._origin[node] for node in group)
        if max(lost.values()) > MOST:
            return False
        links = list(dict.fromkeys(link for node in group for link in self._flow.touching[node]))
        before, old = seam_bytes(links, self.part), self.part[group[0]]
        for node in group:
            self.part[node] = self.part[target]
        if seam_bytes(links, self.part) < before:
            for node in group:
                self.owner[node] = self.owner[target]
            self._lost = lost
            return True
        for node in group:
            self.part[node] = old
        return False
