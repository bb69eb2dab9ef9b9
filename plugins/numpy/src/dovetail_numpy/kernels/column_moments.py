"""Mean and variance of stored integers by channel or group of channels."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail_numpy.integer.norms import mean_and_variance
from dovetail_numpy.kernels._calls import blocks
from dovetail_numpy.kernels.byte_rows import BYTE, LONGEST_ROW, positions_per_row


def column_moments(
    stored: Array, groups: int, real: Array, spare: Array
) -> tuple[Array, Array, Array]:
    """Return the numbers of `mean_and_variance` of each channel's group, float64 (channels,).

    Args:
        stored: Stored integers, (positions, channels). Zero points cancel.
        groups: Number of groups of channels.
        real: Overwritten, float64, or float32 for bytes; at least as many elements as a position.
        spare: Overwritten, as `real`.
    """
    height, width = stored.shape
    size = width // groups
    sums, squares = _column_sums(stored, real, spare).reshape(2, groups, size).sum(2)
    floor, share, variance = mean_and_variance(sums, squares, height * size)
    return np.repeat(floor, size), np.repeat(share, size), np.repeat(variance, size)


def _column_sums(stored: Array, real: Array, spare: Array) -> Array:
    """Return exact sums by channel, and those of squares, int64 (2, channels)."""
    height, width = stored.shape
    repeats = positions_per_row(height, width, min(LONGEST_ROW, real.size))
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
