"""Flips of single weights after learning, as long as the error of a layer's sums falls.

The error of the sums is a quadratic form of the weights. With the products of all pairs of inputs,
the effect of a flip costs almost nothing. Learning finds combinations of weights; this finds single
improvements. A following clip is ignored here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

_SWEEPS = 8
# Stop after a round that flips a smaller share of the weights.
_SETTLED = 1e-3
# Inputs per block of pairs: 64 MiB of products.
_SPAN = 4096
# Inputs after which the slopes of all inputs are updated, in one matrix product.
_BLOCK = 64


def polished(rows: Floats, error: Floats, step: Floats, up: Bools) -> Bools:
    """Return which weights to round up, without a larger error of any channel.

    Args:
        rows: The rows that weights multiply, (groups, m, k).
        error: The errors of the sums, (groups, m, n).
        step: The steps of the weights, (groups, k, n).
        up: Which weights are rounded up now.
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
    """Flip weights that lower the error, input by input; return the number of flips.

    Args:
        pairs: Sums of products of pairs of inputs, (groups, k, k).
        slope: Sums of products of inputs and errors, (groups, k, n); updated.
        change: The change of each weight by a flip; updated.
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
    """Return the changes of weights, from the possible flips before and after."""
    return np.where(old != new, old, np.float32(0))


def _pieces(extent: int, size: int) -> Iterator[slice]:
    for first in range(0, extent, size):
        yield slice(first, min(first + size, extent))
