"""Sums of stored integers by channel, and of their squares."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail_numpy.kernels._calls import blocks
from dovetail_numpy.kernels.byte_rows import BYTE, divisor

# Elements of a row that several positions share: NumPy adds long rows in half the time.
_LONGEST = 1024


def column_sums(stored: Array, real: Array, spare: Array) -> Array:
    """Return exact sums of positions by channel, and those of their squares, int64 (2, channels).

    Args:
        stored: Stored integers, (positions, channels).
        real: Overwritten, float64, or float32 for bytes; at least as many elements as a position.
        spare: Overwritten, as `real`.
    """
    height, width = stored.shape
    repeats = divisor(height, max(1, min(_LONGEST, real.size) // width))
    rows = stored.reshape(-1, repeats * width)
    most = real.size // (repeats * width)
    if real.dtype == np.float32:
        most = min(most, BYTE)  # squares of bytes, whose sum float32 has exactly
    v, squares = (
        pad.reshape(-1)[: most * repeats * width].reshape(most, -1) for pad in (real, spare)
    )
    parts = np.empty((-(-len(rows) // most), 2, repeats * width), real.dtype)
    for part, block in zip(parts, blocks(len(rows), most), strict=True):
        count = block.stop - block.start
        np.copyto(v[:count], rows[block])
        np.multiply(v[:count], v[:count], squares[:count])
        np.add.reduce(v[:count], axis=0, out=part[0])
        np.add.reduce(squares[:count], axis=0, out=part[1])
    totals = parts.sum(0, dtype=np.float64).reshape(2, repeats, width).sum(1)
    return np.asarray(totals.astype(np.int64))
