"""Real values to stored integers and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.ir.dtypes import DType
from dovetail.ir.encodings._contract import Encoding
from dovetail.ir.storage import Array


def dequantize(stored: Array, encoding: Encoding) -> NDArray[np.float32]:
    """Gives the real values of stored integers, float32, any shape."""
    scale, offset = encoding.grid(stored.shape)
    # float64 for 32-bit integers: they have more digits than a float32
    wide = np.float64 if stored.dtype.itemsize > 2 else np.float32
    with np.errstate(over="ignore"):  # beyond float32 is inf
        real = (stored.astype(wide) + offset.astype(wide)) * scale
        return np.asarray(real, np.float32)


def quantize(real: Array, encoding: Encoding, dtype: DType) -> Array:
    """Gives stored integers: `clip(rint(real / scale) - offset)`, half to even, any shape.

    NaN, and everything under a scale of 0, gives the zero point.
    """
    scale, offset = encoding.grid(real.shape)
    low, high = dtype.stored_range(encoding.bitwidth)
    # float64: a 32-bit grid has more steps than a float32 has digits
    zero = -offset.astype(np.float64)
    step = np.where(scale == 0, np.inf, scale.astype(np.float64))
    with np.errstate(invalid="ignore"):  # inf / inf
        steps = np.rint(real.astype(np.float64) / step) + zero
    # NaN has no place on the grid; the zero point is the least harmful one
    steps = np.where(np.isnan(steps), zero, steps)
    return np.asarray(np.clip(steps, low, high)).astype(dtype.storage)
