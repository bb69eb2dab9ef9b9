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

ULP = 2.0**-24  # a float32 operation is off by at most so much, relative to its result
LARGEST = 512.0  # more than a result of 8 bits and its zero point

# From flat indices of elements of a block to their real values, float64.
Places = NDArray[np.intp]
Exact = Callable[[Places], Array]


@dataclass(frozen=True, slots=True)
class NearTies:
    """The rounding of blocks.

    The result of a real number r is `clip(rint(r / step + zero))`, and `zero` for NaN.
    Approximations are of the argument of `rint`. Those that are not beyond the limits by more than
    1 are off by at most `error + relative * (abs(q - zero) + 1)`, q the nearest integer.

    Attributes:
        step, zero: Scale and zero point of the result.
        limits: Its minimum and maximum stored integer.
        error, relative: As above.
    """

    step: float
    zero: int
    limits: tuple[int, int]
    error: float
    relative: float = 0.0

    @property
    def farthest(self) -> int:
        """Largest distance of a stored integer from the zero point."""
        return max(abs(limit - self.zero) for limit in self.limits)

    def store(self, approximate: Floats, out: Array, spare: Floats, exact: Exact) -> None:
        """Write the stored integers of a block.

        Args:
            approximate: Numbers in steps of the result, zero point included; overwritten.
            out: The stored integers, of the same shape; both are contiguous.
            spare: Overwritten, of the same shape.
            exact: Returns the real values of some elements.
        """
        low, high = self.limits
        np.clip(approximate, np.float32(low), np.float32(high), out=approximate)
        np.rint(approximate, spare)
        np.copyto(out, spare, casting="unsafe")
        np.subtract(approximate, spare, approximate)
        np.abs(approximate, approximate)
        certain = np.float32(0.5 - self.error - self.relative * (self.farthest + 1))
        if approximate.max() < certain:
            return
        at = np.flatnonzero(~(approximate < certain))  # NaN is not certain either
        nearest, distance = (array.reshape(-1)[at] for array in (spare, approximate))
        self.settle(out, at, nearest, distance, exact)

    def settle(
        self,
        out: Array,
        at: Places,
        nearest: Array,
        distance: Array,
        exact: Exact,
        more: Array | float = 0.0,
    ) -> None:
        """Compute some elements exactly where a tie is within the bound.

        Args:
            out: The stored integers of a block, contiguous.
            at: Flat indices of the elements.
            nearest: Integers nearest to their approximations.
            distance: Distances of these.
            exact: Returns the real values of some elements.
            more: Errors of the elements in addition.
        """
        errors = self.error + more + self.relative * (np.abs(nearest - self.zero) + 1)
        at = at[~(distance < 0.5 - errors)]
        if at.size:
            out.reshape(-1)[at] = self._rounded(exact(at))

    def _rounded(self, real: Array) -> Array:
        """Return the stored integers of exact real values, as `stored_of` does."""
        steps = real / self.step + float(self.zero)
        steps[np.isnan(steps)] = self.zero
        return np.clip(np.rint(steps, steps), *self.limits)
