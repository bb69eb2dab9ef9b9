"""Finding the grid that float weights already lie on, as those of a quantized model do.

A model that was quantized in its framework brings weights that are integers times a scale. Once
they are folded to floats the scale is gone, but not the grid. It is found again from the values;
storing them on it loses nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import AxisScaleOffset, DType, Encoding, ScaleOffset

# A product of an integer of 8 bits and a scale, rounded to a float32, and divided again.
_NEAR = 1e-4
# So many values decide which grids are looked at closely.
_FEW = 96


def lattice(values: NDArray[np.float32], axis: int | None) -> tuple[DType, Encoding] | None:
    """Gives the 8-bit grid that values lie on: one for all, else one along the axis; or None."""
    if not values.size or not np.isfinite(values).all():
        return None
    scale = _step(values.reshape(-1), 255)
    if scale is not None:
        least, greatest = (int(np.rint(v / scale)) for v in (values.min(), values.max()))
        if least >= -128 and greatest <= 127:
            return DType.SFIXED_POINT_8, ScaleOffset(scale)
        low, high = min(least, 0), max(greatest, 0)
        return (DType.UFIXED_POINT_8, ScaleOffset(scale, low)) if high - low <= 255 else None
    if axis is None:
        return None
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    steps = [_step(row, 128) for row in rows]
    if any(step is None for step in steps):
        return None
    scales = np.array(steps, np.float32)
    if any((np.rint(rows / scales[:, None]) > 127).ravel()):
        return None
    return DType.SFIXED_POINT_8, AxisScaleOffset(axis, scales)


def _step(values: NDArray[np.float32], most: int) -> float | None:
    """The largest step of which all values are whole multiples, at most `most` times."""
    size = np.abs(values.astype(np.float64))
    greatest = float(size.max())
    if greatest == 0:
        return 1.0
    few = size[:: max(len(size) // _FEW, 1)]
    counts = np.arange(1, most + 1)
    off = _distance(few[None, :] * (counts[:, None] / greatest)).max(axis=1)
    for count in counts[off < _NEAR]:
        if _distance(size * (count / greatest)).max() < _NEAR:
            return float(np.float32(greatest / count))
    return None


def _distance(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far values are from whole numbers."""
    return np.asarray(np.abs(values - np.rint(values)))
