"""Delta debugging: the smallest part of a list that still fails.

Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002 (ddmin).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest_failing(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a part of a list that fails, of which no item can be left out.

    Args:
        items: A list that fails.
        fails: Returns whether a part of it does; not called for the empty list.
    """
    rest, parts = list(items), 2
    while len(rest) > 1:
        size = -(-len(rest) // parts)
        chunks = [rest[i : i + size] for i in range(0, len(rest), size)]
        chunk = next((c for c in chunks if fails(c)), None)
        if chunk is not None:
            rest, parts = chunk, 2
            continue
        starts = range(0, len(rest), size) if parts > 2 else ()
        without = (rest[:i] + rest[i + size :] for i in starts)
        smaller = next((c for c in without if fails(c)), None)
        if smaller is not None:
            rest, parts = smaller, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(rest))
    return rest
