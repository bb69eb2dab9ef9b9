"""Flipping single weights after learning, as long as that lowers the error of a layer's sums.

The error of the sums is a quadratic form of the weights, so once the products of all pairs of
inputs are there, what a flip is worth costs next to nothing. Learning finds weights that belong
together; this finds what it left lying. What is cut off behind the layer does not count here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

_SWEEPS = 8
# Rounds that flip a smaller share of the weights than this are not worth another one.
_SETTLED = 1e-3
# Inputs whose pairs are held at once: 64 MiB of products; more inputs take turns.
_SPAN = 4096
# Inputs after which what they changed is told to all others, in one product of matrices.
_BLOCK = 64


def polished(rows: Floats, error: Floats, step: Floats, up: Bools) -> Bools:
    """Return which weights to round up, each channel's sum of squares no greater than before.

    Args:
        rows: What weights are multiplied with, (groups, m, k).
        error: What the sums are off by, (groups, m, n).
        step: What rounding up adds to a weight, (groups, k, n).
        up: Which are rounded up by now.
    """
    change = np.where(up, -step, step)
    before = change.copy()
    for span in _pieces(step.shape[1], _SPAN):
        some = rows[:, :, span]
        pairs = some.swapaxes(1, 2) @ some
        slope = some.swapaxes(1, 2) @ error
        for _ in range(_SWEEPS):
            if _sweep(pairs, slope, change[:, span]) < _SETTLED * up.size:
                break
        if span.stop < step.shape[1]:
            error = error + some @ _moved(before[:, span], change[:, span])
    return np.asarray(up ^ (before != change))


def _sweep(pairs: Floats, slope: Floats, change: Floats) -> int:
    """Flips what lowers the error, one input after the other; gives how many were flipped.

    Args:
        pairs: The sums of products of each two inputs, (groups, k, k).
        slope: Those of each input and the error, (groups, k, n); kept up to date.
        change: What a flip would add to each weight; kept up to date.
    """
    count = 0
    for block in _pieces(change.shape[1], _BLOCK):
        inner = pairs[:, block, block]
        near = slope[:, block].copy()
        old = change[:, block].copy()
        new = change[:, block]
        for i in range(new.shape[1]):
            power = inner[:, i, i, None]
            flipped = new[:, i] * (2 * near[:, i] + new[:, i] * power) < 0
            if flipped.any():
                moved = new[:, i] * flipped
                near += inner[:, :, i, None] * moved[:, None]
                new[:, i] -= 2 * moved
                count += int(np.count_nonzero(flipped))
        slope += pairs[:, :, block] @ _moved(old, new)
    return count


def _moved(old: Floats, new: Floats) -> Floats:
    """Return by what weights have become greater, of what a flip would add before and after."""
    return np.where(old != new, old, np.float32(0))


def _pieces(extent: int, size: int) -> Iterator[slice]:
    for first in range(0, extent, size):
        yield slice(first, min(first + size, extent))
