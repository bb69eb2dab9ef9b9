"""Recovery of the grid of float weights from a quantized model.

The weights of a model that was quantized in its framework are integers times a scale. After folding
to floats, the scale is lost, but the values are still on the grid. It is recovered from them;
storing them on it loses nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import AxisScaleOffset, DType, Encoding, ScaleOffset

# A product of an integer of 8 bits and a scale, rounded to a float32, and divided again.
_NEAR = 1e-4
# The same for an integer of more bits: its product and that of the maximum each have a relative
# error of up to 2**-24; as much again is for scales that were rounded before.
_NEAR_BY_SIZE = 2.0**-22
# Number of values that select grids for a full check, and number of those to try first.
_FEW = 96
_FIRST = 4
# Any few numbers are near some grid of 16 bits: the maximum probability of that by chance.
_CHANCE = 1e-6
# A type, and the scale and offset of each row.
_Grid = tuple[DType, NDArray[np.float32], NDArray[np.int32]]


def recover_grid(values: NDArray[np.float32], axis: int | None) -> tuple[DType, Encoding] | None:
    """Return the grid of values, or None.

    A grid of 8 bits for all values is preferred, then one of 8 bits for each slice along the axis,
    then the same with 16 bits.
    """
    if not values.size or not np.isfinite(values).all():
        return None
    for bits in (8, 16):
        found = _grid(values.reshape(1, -1), bits)
        if found is not None:
            dtype, scales, offsets = found
            return dtype, ScaleOffset(float(scales[0]), int(offsets[0]))
        if axis is None:
            continue
        slices = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
        found = _grid(slices, bits)
        if found is not None:
            dtype, scales, offsets = found
            return dtype, AxisScaleOffset(axis, scales, offsets if offsets.any() else None)
    return None


def _grid(rows: NDArray[np.float32], bits: int) -> _Grid | None:
    """Return the grid of (n, m) values that has a scale for each row."""
    counts: list[int] = []
    for row in rows:
        count = _steps(row, 2**bits - 1)
        if count is None:
            return None
        counts.append(count)
    if bits > 8 and not _is_meant(rows, counts):
        return None
    size = np.abs(rows).max(axis=1).astype(np.float64)
    scales = np.where(size > 0, size / counts, 1.0).astype(np.float32)
    if (scales < np.finfo(np.float32).tiny).any():  # subnormal values
        return None
    minimum = np.rint(rows.min(axis=1) / scales).astype(np.int64)
    maximum = np.rint(rows.max(axis=1) / scales).astype(np.int64)
    signed, unsigned = (DType.fixed(bits, signed=s) for s in (True, False))
    low, high = signed.stored_range()
    if (minimum >= low).all() and (maximum <= high).all():
        return signed, scales, np.zeros(len(rows), np.int32)
    offsets = np.minimum(minimum, 0).astype(np.int32)
    if (np.maximum(maximum, 0) - offsets > 2**bits - 1).any():
        return None
    return unsigned, scales, offsets


def _steps(values: NDArray[np.float32], most: int) -> int | None:
    """Return the steps of the maximum, on the coarsest grid of all values; None for no grid."""
    size = np.abs(values.astype(np.float64))
    maximum = float(size.max())
    if maximum == 0:
        return 1
    counts = np.arange(1, most + 1)
    few = np.unique(size[:: max(len(size) // _FEW, 1)])
    few = few[(few > 0) & (few < maximum)] / maximum
    # the first values, one by one, leave few candidates
    for value in few[:_FIRST]:
        counts = counts[_distance(counts * value) < _near(counts)]
    off = _distance(few[None, :] * counts[:, None]).max(axis=1, initial=0.0)
    for count in counts[off < _near(counts)]:
        if _distance(size * (count / maximum)).max() < _near(count):
            return int(count)
    return None


def _is_meant(rows: NDArray[np.float32], counts: list[int]) -> bool:
    """Return whether rows on grids of so many steps are unlikely by chance."""
    chance = 0.0
    for row, count in zip(rows, counts, strict=True):
        others = len(np.unique(np.abs(row[row != 0]))) - 1
        if others > 0:
            one = math.log(count) + others * math.log(2 * float(_near(count)))
            chance += min(one, 0.0)
    return chance < math.log(_CHANCE)


def _near(counts: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Return the tolerance for whole numbers of up to so many steps."""
    return np.asarray(np.maximum(_NEAR, np.asarray(counts) * _NEAR_BY_SIZE))


def _distance(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of values from whole numbers."""
    return np.asarray(np.abs(values - np.rint(values)))
