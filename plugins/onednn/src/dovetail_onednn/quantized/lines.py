"""Tables of stored bytes as lines between two bounds."""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np

from dovetail.ir import Array

# Minimum distance of a line from where rounding changes. Below 256, adjacent float32 numbers
# are 2**-16 apart or closer, and a fused multiply-add rounds once.
_MARGIN = 2.0**-12
_STEEPEST = 512.0
_TRIALS = 65  # slopes that are compared at a time
_ROUNDS = 6  # each narrows the range of slopes by half the trials


class Line(msgspec.Struct, frozen=True):
    """A function of stored integers: `clip(rint(slope * q + start), low, high)` in float32."""

    slope: float
    start: float
    low: int
    high: int


def line_through(stored: Array, results: Array, margin: float = _MARGIN) -> Line | None:
    """Return a line on which rounding errors do not change any result, or None.

    Args:
        stored: Integers of 8 bits, different, or values of a function of these.
        results: Results for these.
        margin: Smallest distance of the line from where rounding changes.
    """
    return _line_through(tuple(stored.tolist()), tuple(results.tolist()), margin)


@lru_cache(maxsize=256)
def _line_through(
    stored: tuple[float, ...], results: tuple[int, ...], margin: float
) -> Line | None:
    q, wanted = (np.array(numbers, np.float64) for numbers in (stored, results))
    low, high = min(results), max(results)
    if low == high:
        return Line(0.0, float(low), low, high)
    least = np.where(wanted == low, -np.inf, wanted - 0.5)
    most = np.where(wanted == high, np.inf, wanted + 0.5)
    left, right = -_STEEPEST, _STEEPEST
    for _ in range(_ROUNDS):  # the room for a start is a concave function of the slope
        slopes = np.linspace(left, right, _TRIALS)
        lines = slopes[:, None] * q
        above, below = (most - lines).min(axis=1), (least - lines).max(axis=1)
        best = int((above - below).argmax())
        left, right = slopes[max(best - 1, 0)], slopes[min(best + 1, _TRIALS - 1)]
    slope, start = np.float32(slopes[best]), np.float32((above[best] + below[best]) / 2)
    line = float(slope) * q + float(start)
    is_through = (least + margin <= line) & (line <= most - margin)
    return Line(float(slope), float(start), low, high) if is_through.all() else None
