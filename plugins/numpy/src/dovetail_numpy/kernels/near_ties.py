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

# From flat indices of elements of a block to their real values, float64.
Exact = Callable[[NDArray[np.intp]], Array]


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
        farthest = max(abs(limit - self.zero) for limit in self.limits)
        certain = np.float32(0.5 - self.error - self.relative * (farthest + 1))
        if approximate.max() < certain:
            return
        at = np.flatnonzero(~(approximate < certain))  # NaN is not certain either
        flat = out.reshape(-1)
        errors = self.error + self.relative * (np.abs(spare.reshape(-1)[at] - self.zero) + 1)
        at = at[~(approximate.reshape(-1)[at] < 0.5 - errors)]
        if at.size:
            flat[at] = self.rounded(exact(at))

    def rounded(self, real: Array) -> Array:
        """Return the stored integers of exact real values, as `stored_of` does."""
        steps = real / self.step + float(self.zero)
        steps[np.isnan(steps)] = self.zero
        return np.clip(np.rint(steps, steps), *self.limits)
