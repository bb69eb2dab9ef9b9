"""Rounding of float32 approximations to stored integers, with the bits of an exact formula.

An approximation whose error is bounded rounds to the integer that the exact number does, unless a
tie is within the bound. The elements where one is are few, and computed exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail_numpy.kernels._calls import Floats

# From flat indices of elements of a block to their stored integers.
Exact = Callable[[NDArray[np.intp]], Array]


@dataclass(frozen=True, slots=True)
class NearTies:
    """The rounding of blocks.

    Attributes:
        limits: The minimum and maximum stored integer.
        error: Bound of the error of approximations that are not beyond the limits by more than 1.
    """

    limits: tuple[int, int]
    error: float

    def store(self, approximate: Floats, out: Array, spare: Floats, exact: Exact) -> None:
        """Write the stored integers of a block.

        Args:
            approximate: Numbers in steps of the result, zero point included; overwritten.
            out: The stored integers, of the same shape; both are contiguous.
            spare: Overwritten, of the same shape.
            exact: Returns the stored integers of some elements.
        """
        low, high = self.limits
        np.maximum(approximate, np.float32(low), out=approximate)
        np.minimum(approximate, np.float32(high), out=approximate)
        np.rint(approximate, spare)
        np.copyto(out, spare, casting="unsafe")
        np.subtract(approximate, spare, approximate)
        np.abs(approximate, approximate)
        certain = np.float32(0.5 - self.error)
        if not approximate.max() < certain:  # NaN is not certain either
            at = np.flatnonzero(~(approximate < certain))
            out.reshape(-1)[at] = exact(at)
