"""Exponential, logistic function and hyperbolic tangent in fixed point.

Numbers are integers `raw` of 32 or 16 bits with some integer bits: real is `raw * 2**(i - bits +
1)`. The exponential of a number below 0 is a polynomial of its last quarter times powers of e, the
reciprocals take three steps of Newton's method. Source: gemmlowp's fixed point library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from dovetail.ir import Array
from dovetail_numpy.integer.fixed.arithmetic import divided, high_product, truncated

_STEPS = 3  # of Newton's method

# Entries of LiteRT's table of the logistic function that are one above the nearest integer, as its
# outputs show.
# fmt: off
_ABOVE = frozenset((
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39,
    40, 41, 43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
))
# fmt: on


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Arithmetic of numbers of a width.

    Attributes:
        bits: 32 or 16.
    """

    bits: int

    @property
    def one(self) -> int:
        """The largest number without integer bits, which represents 1."""
        return (1 << (self.bits - 1)) - 1

    def exp(self, raw: Array, integer_bits: int) -> Array:
        """Return e**x of numbers of at most 0, without integer bits."""
        fraction = self.bits - 1 - integer_bits
        quarter = 1 << (fraction - 2)
        last = (raw & (quarter - 1)) - quarter
        result = self._exp_of_quarter(self._shifted(last, integer_bits))
        rest = last - raw
        for exponent in range(-2, integer_bits):
            factor = self._constant(math.exp(-(2.0**exponent)))
            is_set = (rest >> (fraction + exponent)) & 1 != 0
            result = np.where(is_set, self._times(result, factor), result)
        if integer_bits > 5:
            result = np.where(raw < -(1 << (fraction + 5)), 0, result)
        return np.where(raw == 0, self.one, result)

    def logistic(self, raw: Array, integer_bits: int) -> Array:
        """Return 1 / (1 + e**-x), without integer bits."""
        positive = self.reciprocal(self.exp(-np.abs(raw), integer_bits))
        result = np.where(raw > 0, positive, self.one - positive)
        return np.where(raw == 0, 1 << (self.bits - 2), result)

    def tanh(self, raw: Array, integer_bits: int) -> Array:
        """Return the hyperbolic tangent, without integer bits."""
        # the double of a number is itself with one more integer bit
        twice = self._newton(self.exp(-np.abs(raw), integer_bits + 1))
        positive = self._shifted(twice - (1 << (self.bits - 3)), 2)
        return np.where(raw == 0, 0, np.where(raw > 0, positive, -positive))

    def reciprocal(self, raw: Array) -> Array:
        """Return 1 / (1 + x) of numbers between 0 and 1; neither has integer bits."""
        return self._shifted(self._newton(raw), 1)

    def _newton(self, raw: Array) -> Array:
        """Return 2 / (1 + x) with two integer bits."""
        total = raw + self.one
        half = truncated(total + np.where(total >= 0, 1, -1), 1)
        x = self._constant(48 / 17, 2) + self._times(half, self._constant(-32 / 17, 2))
        for _ in range(_STEPS):
            error = (1 << (self.bits - 3)) - self._times(half, x)
            x = x + self._shifted(self._times(x, error), 2)
        return x

    def _exp_of_quarter(self, raw: Array) -> Array:
        """Return e**x of numbers from -1/4 to 0; neither has integer bits."""
        constant = self._constant(math.exp(-1 / 8))
        x = raw + (1 << (self.bits - 4))
        square = self._times(x, x)
        cube, fourth = self._times(square, x), self._times(square, square)
        third = self._constant(1 / 3)
        rest = divided(self._times(divided(fourth, 2) + cube, third) + square, 1)
        found = constant + self._times(constant, x + rest)
        return np.asarray(np.clip(found, -self.one - 1, self.one))

    def _times(self, a: Array | int, b: Array | int) -> Array:
        return high_product(a, b, self.bits)

    def _shifted(self, raw: Array, left: int) -> Array:
        """Return numbers with fewer integer bits, saturated."""
        return np.asarray(np.clip(raw << left, -self.one - 1, self.one))

    def _constant(self, real: float, integer_bits: int = 0) -> int:
        wide = round(real * 2.0 ** (31 - integer_bits))
        return wide if self.bits == 32 else int(divided(np.asarray(wide, np.int64), 16))


def logistic_of_16_bits(x: Array, step: float) -> Array:
    """Return 2**15 / (1 + e**-(step * x)) of 16-bit integers, between entries of a table."""
    argument = _argument(x, step)
    index = np.abs(argument) >> 9
    between = _interpolated(index, np.abs(argument) & 0x1FF, 9)
    result = np.where(index >= 255, 0x7FFF << 10, between)
    result = np.where(argument >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1)
    return np.asarray(result >> 10)


def tanh_of_16_bits(x: Array, step: float) -> Array:
    """Return 2**15 * tanh(step * x) of 16-bit integers, by the table of the logistic function."""
    argument = _argument(x, step)
    index = np.abs(argument) >> 8
    between = _interpolated(index, np.abs(argument) & 0xFF, 8)
    result = np.where(index >= 255, 0xFFFF << 8, between) - (1 << 23)
    result = np.where(argument >= 0, result + (1 << 7), -result + (1 << 7) - 1)
    return np.asarray(result >> 8)


def _argument(x: Array, step: float) -> Array:
    """Return the argument in units of 2**-12 / 3, by a multiplier of 15 bits."""
    multiplier, shift = step * 4096.0 * 3.0, 0
    mantissa, power = math.frexp(step)
    if mantissa == 0.5 and power + 11 >= 0:
        return x * (3 << (power + 11))
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return np.asarray((x * int(multiplier) + ((1 << shift) >> 1)) >> shift)


def _interpolated(index: Array, rest: Array, bits: int) -> Array:
    table = _logistic_table()
    low = table[np.minimum(index, 254)]
    high = table[np.minimum(index, 254) + 1]
    return np.asarray((low << bits) + rest * (high - low))


@cache
def _logistic_table() -> Array:
    """Return 2**16 / (1 + e**-(i / 24)) as integers of at most 65535, int64, (256,)."""
    nearest = [round(65536 / (1 + math.exp(-i / 24))) + (i in _ABOVE) for i in range(256)]
    return np.minimum(np.array(nearest, np.int64), 65535)
