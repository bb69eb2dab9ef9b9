"""Topological order that keeps the given order where the data flow permits."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from itertools import chain


def topological_order(
    reads: Sequence[Sequence[Hashable]], writes: Sequence[Sequence[Hashable]]
) -> list[int]:
    """Sort items by Kahn's algorithm; a heap of their numbers keeps it stable.

    Args:
        reads: What each item reads. Nothing needs to write it.
        writes: What each item writes, and no other.

    Returns:
        Their numbers in order, without the items in a cycle and those after one.
    """
    if _are_in_order(reads, writes):
        return list(range(len(reads)))
    writers = {value: i for i, written in enumerate(writes) for value in written}
    readers: list[list[int]] = [[] for _ in reads]
    waiting = []
    for i, values in enumerate(reads):
        needed = {writers[value] for value in values if value in writers}
        waiting.append(len(needed))
        for j in needed:
            readers[j].append(i)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        done = heapq.heappop(ready)
        order.append(done)
        for i in readers[done]:
            waiting[i] -= 1
            if waiting[i] == 0:
                heapq.heappush(ready, i)
    return order


def _are_in_order(
    reads: Sequence[Sequence[Hashable]], writes: Sequence[Sequence[Hashable]]
) -> bool:
    is_written, known = {*chain(*writes)}.__contains__, set[Hashable]()
    for values, written in zip(reads, writes, strict=True):
        if not known.issuperset(filter(is_written, values)):
            return False
        known.update(written)
    return True
