"""Partition of a graph into convex parts of one backend each."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.runtime.placement.flow import Flow, ordered


def partition(flow: Flow, owner: Sequence[int]) -> list[int]:
    """Return the part of each node; no two parts of one owner could be one convex part.

    Parts are numbered in an order in which they can run.

    Args:
        flow: The data flow.
        owner: The backend of each node.
    """
    return merged(flow, owner, _runs(flow, owner))


def merged(flow: Flow, owner: Sequence[int], part: Sequence[int]) -> list[int]:
    """Return parts that are merged as long as any two of one owner can be one convex part.

    Args:
        flow: The data flow.
        owner: The backend of each node.
        part: The part of each node; there is an order in which the parts can run.
    """
    part = numbered(flow, part)
    while pair := _mergeable(flow, owner, part):
        first, second = pair
        part = numbered(flow, [first if p == second else p for p in part])
    return part


def numbered(flow: Flow, part: Sequence[int]) -> list[int]:
    """Return parts with the numbers 0, 1, ... in an order in which they can run."""
    order = ordered(flow, part)
    if order is None:
        raise AssertionError("the parts wait for each other")
    numbers = {p: i for i, p in enumerate(order)}
    return [numbers[p] for p in part]


def _runs(flow: Flow, owner: Sequence[int]) -> list[int]:
    """Return the part of each node, each part as large as it can be after those before it.

    Nodes whose inputs are known are ready. The backend with the most ready nodes runs them and all
    that become ready by this, then another backend follows.
    """
    waiting = [len(before) for before in flow.before]
    ready: dict[int, list[int]] = {}
    for i, count in enumerate(waiting):
        if not count:
            ready.setdefault(owner[i], []).append(i)
    part, number = [0] * flow.count, 0
    while ready:
        chosen = min(ready, key=lambda o: (-len(ready[o]), o))
        nodes = ready.pop(chosen)
        for i in nodes:  # grows meanwhile
            part[i] = number
            for j in flow.after[i]:
                waiting[j] -= 1
                if not waiting[j]:
                    target = nodes if owner[j] == chosen else ready.setdefault(owner[j], [])
                    target.append(j)
        number += 1
    return part


def _mergeable(flow: Flow, owner: Sequence[int], part: Sequence[int]) -> tuple[int, int] | None:
    """Return two parts of one owner between which no path leads through a third.

    Sets of parts are bits of integers.

    Args:
        flow: The data flow.
        owner: The backend of each node.
        part: The part of each node, numbered in order.
    """
    count = max(part, default=-1) + 1
    before: list[set[int]] = [set() for _ in range(count)]
    for link in flow.links:
        for reader in link.readers:
            if part[reader] != part[link.writer]:
                before[part[reader]].add(part[link.writer])
    owner_of = dict(zip(part, owner, strict=True))
    above, of_owner = [0] * count, dict.fromkeys(owner, 0)
    for q in range(count):
        through = 0  # parts that lead to q through another part
        for p in before[q]:
            through |= above[p]
            above[q] |= above[p] | 1 << p
        candidates = of_owner[owner_of[q]] & ~through
        if candidates:
            return candidates.bit_length() - 1, q
        of_owner[owner_of[q]] |= 1 << q
    return None
