"""Multiplication of integers by real numbers as a 31-bit multiplier and a shift.

A real number is `multiplier * 2**(shift - 31)`. The forms of the product, which round halves:

- double rounding (gemmlowp): the upper half of the doubled product, halves up, then a division by a
  power of two, halves away from zero;
- single rounding: one shift to the right, halves up.

All functions are for int64 arrays; results are within int32. Source: the reference kernels of
LiteRT and gemmlowp.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array

INT32 = (-(2**31), 2**31 - 1)


class Rounding(enum.Enum):
    """Forms of the product of an integer and a multiplier."""

    DOUBLE = "double"
    SINGLE = "single"


@dataclass(frozen=True, slots=True)
class Multiplier:
    """Real numbers in fixed point, of any shape that broadcasts.

    Attributes:
        factor: int64, 0 or at least 2**30 and below 2**31.
        shift: int64, of the same shape; positive is to the left.
    """

    factor: Array
    shift: Array

    @classmethod
    def of(cls, real: Array | float) -> Multiplier:
        """Return the numbers nearest to real ones, which are not negative."""
        mantissa, shift = np.frexp(np.asarray(real, np.float64))
        # half away from zero, as the C library's `round`
        factor = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
        wide = shift.astype(np.int64)
        is_one = factor == 1 << 31
        factor, wide = np.where(is_one, factor >> 1, factor), wide + is_one
        is_nothing = wide < -31
        factor, wide = np.where(is_nothing, 0, factor), np.where(is_nothing, 0, wide)
        is_huge = wide > 30
        return cls(
            np.where(is_huge, INT32[1], factor).astype(np.int64),
            np.where(is_huge, 30, wide).astype(np.int64),
        )

    def times(self, x: Array, rounding: Rounding) -> Array:
        """Return products with 32-bit integers, in single rounding of up to 47 bits."""
        if rounding is Rounding.SINGLE:
            return self._times_once(x)
        left = np.clip(x << np.maximum(self.shift, 0), *INT32)
        return divided(high_product(left, self.factor), np.maximum(-self.shift, 0))

    def _times_once(self, x: Array) -> Array:
        # in two parts, since x times the factor may have more than 63 bits
        total = 31 - self.shift
        low = ((x & 0xFFFF) * self.factor + (np.int64(1) << (total - 1))) >> np.minimum(total, 16)
        high = (x >> 16) * self.factor
        products = (
            np.where(total < 16, high << np.maximum(16 - total, 0), high) + low
        )  # of 2**16 or of the unit
        return np.asarray(np.clip(products >> np.maximum(total - 16, 0), *INT32))

    def times_wide(self, x: Array) -> Array:
        """Return products with sums of 16-bit data, of up to 47 bits: the multiplier has 15 bits.

        This has one rounding, halves up, in either form.
        """
        narrow = np.where(self.factor < 0x7FFF0000, (self.factor + (1 << 15)) >> 16, 0x7FFF)
        total = 15 - self.shift
        products = (x * narrow + (np.int64(1) << (total - 1))) >> total
        return np.asarray(np.clip(products, *INT32))


def high_product(a: Array | int, b: Array | int, bits: int = 32) -> Array:
    """Return the upper half of doubled products, rounded: halves up; saturated."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    half = 1 << (bits - 2)
    nudged = product + np.where(product >= 0, half, 1 - half)
    return np.minimum(truncated(nudged, bits - 1), (1 << (bits - 1)) - 1)


def truncated(x: Array, shift: int) -> Array:
    """Return integers over a power of two, rounded towards 0."""
    return np.where(x >= 0, x >> shift, -(-x >> shift))


def divided(x: Array, exponent: Array | int) -> Array:
    """Return integers over 2**exponent, rounded, halves away from zero."""
    mask = (np.int64(1) << np.asarray(exponent, np.int64)) - 1
    above = (x & mask) > (mask >> 1) + (x < 0)
    return np.asarray((x >> np.asarray(exponent, np.int64)) + above)


def rounded_quotient(x: Array, count: Array | int) -> Array:
    """Return integers over positive counts, rounded, halves away from zero."""
    half = np.asarray(count, np.int64) // 2
    return np.asarray(np.where(x > 0, (x + half) // count, -((half - x) // count)))
