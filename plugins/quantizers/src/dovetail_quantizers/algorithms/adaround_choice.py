"""The two points of the grid beside each weight, between which rounding is learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Tensor, quantize

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Choice:
    """The two points of the grid beside each weight, all of the weight's shape.

    Attributes:
        below, above: As stored integers.
        low: The real value of the one below.
        step: What the one above has more.
        fraction: Where between them the weight is.
        nearest: Where rounding to nearest takes the one above.
    """

    below: Array
    above: Array
    low: Floats
    step: Floats
    fraction: Floats
    nearest: NDArray[np.bool_]

    @classmethod
    def of(cls, tensor: Tensor, values: Floats) -> Choice:
        """Return those of a fixed-point weight, and what it was before it was quantized."""
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
        """Return the integers to store where some are rounded up."""
        return np.where(up, self.above, self.below)
