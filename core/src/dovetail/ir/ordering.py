"""Topological order that keeps the given order where the data flow permits."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence


def topological_order(needs: Sequence[Collection[int]]) -> list[int]:
    """Sort items by Kahn's algorithm; a heap of their numbers keeps it stable.

    Args:
        needs: For each item, the numbers of the items that must precede it, each once.

    Returns:
        Their numbers in order, without the items in a cycle and those after one.
    """
    if all(max(needed, default=-1) < i for i, needed in enumerate(needs)):
        return list(range(len(needs)))  # they are in order
    readers: list[list[int]] = [[] for _ in needs]
    for i, needed in enumerate(needs):
        for j in needed:
            readers[j].append(i)
    waiting = [len(needed) for needed in needs]
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
