"""Sums of products that neither overflow nor underflow."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# Sums of squares below this may have lost elements whose squares underflow.
_TINY = 1e-200
_LOG10_OF_2 = math.log10(2)


class BinarySum:
    """A sum of terms of any size: `total * 2**exponent`."""

    def __init__(self) -> None:
        self.total = 0.0
        self.exponent = 0

    def add(self, term: float, exponent: int = 0) -> None:
        """Add `term * 2**exponent`."""
        if self.total == 0:
            self.total, self.exponent = term, exponent
        elif term != 0:
            common = max(self.exponent, exponent)
            self.total = math.ldexp(self.total, self.exponent - common)
            self.total += math.ldexp(term, exponent - common)
            self.exponent = common

    def divided(self, count: int) -> BinarySum:
        """Return the sum divided by a count."""
        found = BinarySum()
        found.add(self.total / count, self.exponent)
        return found

    def value(self) -> float:
        """Return the sum; infinite if it exceeds float64."""
        try:
            return math.ldexp(self.total, self.exponent)
        except OverflowError:
            return math.copysign(math.inf, self.total)

    def log10(self) -> float:
        """Return the decimal logarithm of a sum that is positive."""
        return math.log10(self.total) + self.exponent * _LOG10_OF_2


def add_square(total: BinarySum, values: Values) -> None:
    """Add the sum of the squares of values, shape (n,)."""
    add_products((total,), ((values, values),))


def add_products(totals: tuple[BinarySum, ...], pairs: tuple[tuple[Values, Values], ...]) -> None:
    """Add the inner product of each pair of arrays, shape (n,), to its sum.

    Every array must be the pair of itself once, so that its squares show whether it needs scaling.
    """
    products = [float(np.dot(a, b)) for a, b in pairs]
    squares = [p for p, (a, b) in zip(products, pairs, strict=True) if a is b]
    if all(_TINY < square < math.inf for square in squares):
        for total, product in zip(totals, products, strict=True):
            total.add(product)
        return
    scaled = {id(a): _scaled(a) for pair in pairs for a in pair}
    for total, (a, b) in zip(totals, pairs, strict=True):
        (one, of_one), (other, of_other) = scaled[id(a)], scaled[id(b)]
        total.add(float(np.dot(one, other)), of_one + of_other)


def _scaled(values: Values) -> tuple[Values, int]:
    """Return values of at most 1 and the exponent of the power of two that they were divided by."""
    largest = float(np.abs(values).max())
    if largest == 0 or math.isinf(largest):
        return values, 0
    exponent = math.frexp(largest)[1]
    return np.ldexp(values, -exponent), exponent
