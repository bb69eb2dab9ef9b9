"""Recovery of the bytes of float weights that were dequantized before.

Weights of a model that was quantized are whole numbers times a scale, rounded to float32. From the
numbers alone follow whole numbers and scales with the same products, bit by bit.
"""

from __future__ import annotations

import msgspec
import numpy as np

from dovetail.ir import Array

_MOST = 255  # magnitude of a byte less a zero point
_FEW = 64  # values that select grids for a check of all
# A quotient of two rounded products, times a whole number up to `_MOST`.
_NEAR = 1e-4
_LOW, _HIGH = -128, 127
_LARGEST = np.finfo(np.float32).max


class Levels(msgspec.Struct, frozen=True):
    """Weights as (signed bytes + offset) * scale.

    Attributes:
        scales: float32, one for each column or one for all, (n,) or (1,).
        offset: The offset of all columns.
    """

    scales: Array
    offset: int

    def bytes(self, columns: Array) -> Array:
        """Return the bytes of weights (depth, n), int8."""
        return (_whole(columns, self.scales) - np.float32(self.offset)).astype(np.int8)


def levels_of(columns: Array) -> Levels | None:
    """Return how bytes represent weights exactly; None if they do not.

    Args:
        columns: float32 (depth, n). One scale for all columns is preferred.
    """
    if not columns.size or not np.isfinite(columns).all():
        return None
    scales = _scales(columns.reshape(-1, 1))
    if scales is None:
        scales = _scales(columns)
    if scales is None:
        return None
    whole = _whole(columns, scales)
    least, most = int(whole.min()), int(whole.max())
    offset = 0 if least >= _LOW and most <= _HIGH else least - _LOW
    return Levels(scales, offset) if most - offset <= _HIGH else None


def _scales(columns: Array) -> Array | None:
    """Return a scale for each column, or None if a column has none."""
    tops = np.abs(columns).max(0)
    scales: Array = np.ones_like(tops)
    rest = np.flatnonzero(tops)
    while len(rest):  # most columns have as many steps as the first one
        few, top = columns if len(rest) == columns.shape[1] else columns[:, rest], tops[rest]
        fits = (_fit(few, top, int(count)) for count in _counts(few[:, 0], top[0]))
        found = next((fit for fit in fits if fit[0] > 0), None)
        if found is None:
            return None
        scales[rest[found > 0]] = found[found > 0]
        rest = rest[found == 0]
    return scales


def _counts(column: Array, top: float) -> Array:
    """Return how many steps of a grid the largest magnitude of a column may be."""
    few = np.abs(column[:: max(len(column) // _FEW, 1)].astype(np.float64)) / float(top)
    counts = np.arange(1, _MOST + 1)
    for value in few:
        steps = counts * value
        counts = counts[np.abs(steps - np.rint(steps)) < _NEAR]
    return counts


def _fit(columns: Array, tops: Array, count: int) -> Array:
    """Return the scale of each column whose largest magnitude is so many steps, 0 for others."""
    near = (tops.astype(np.float64) / count).astype(np.float32)
    found = np.zeros_like(near)
    for scales in (near, *(np.nextafter(near, np.float32(end)) for end in (0, _LARGEST))):
        normal = np.maximum(scales, np.finfo(np.float32).tiny)
        with np.errstate(over="ignore"):  # the product is another number then
            is_exact = (_whole(columns, normal) * normal == columns).all(0)
        np.copyto(found, normal, where=is_exact & (found == 0))
        if found.all():
            break
    return found


def _whole(columns: Array, scales: Array) -> Array:
    return np.asarray(np.rint(columns / scales))
