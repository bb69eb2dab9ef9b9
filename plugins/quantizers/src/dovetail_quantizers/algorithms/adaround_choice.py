"""The two points of the grid next to each weight, between which rounding is learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Tensor, quantize

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Choice:
    """The two points of the grid next to each weight, all of the weight's shape.

    Attributes:
        below, above: The points as stored integers.
        low: The real value of the lower point.
        step: The difference of the real values.
        fraction: The position of the weight between them, 0 to 1.
        nearest: Whether rounding to nearest gives the upper point.
    """

    below: Array
    above: Array
    low: Floats
    step: Floats
    fraction: Floats
    nearest: NDArray[np.bool_]

    @classmethod
    def of(cls, tensor: Tensor, values: Floats) -> Choice:
        """Return the points of a fixed-point weight, from its float values."""
        assert tensor.encoding is not None
        dtype, encoding = tensor.dtype, tensor.encoding
        scale, offset = encoding.scales_and_offsets(values.shape)
        low, high = dtype.stored_range(encoding.bitwidth)
        wide = np.where(scale == 0, np.inf, scale.astype(np.float64))
        places = values / wide - offset
        below = np.clip(np.floor(places), low, high)
        above = np.clip(np.floor(places) + 1, low, high)
        nearest = quantize(values, encoding, dtype) > below
        return cls(
            below.astype(dtype.storage),
            above.astype(dtype.storage),
            ((below + offset) * scale).astype(np.float32),
            ((above - below) * scale).astype(np.float32),
            np.clip(places - below, 0, 1).astype(np.float32),
            nearest,
        )

    def stored(self, up: NDArray[np.bool_]) -> Array:
        """Return the stored integers for weights that are rounded up or down."""
        return np.where(up, self.above, self.below)
