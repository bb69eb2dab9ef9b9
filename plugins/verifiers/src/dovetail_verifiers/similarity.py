"""The verifiers of the tensors as vectors: CosineSimilarity and SQNR."""

from __future__ import annotations

import math

from dovetail.verification import Comparison
from dovetail_verifiers._elementwise import Elementwise, Values
from dovetail_verifiers._parameters import Positive
from dovetail_verifiers._sums import BinarySum, add_products, add_square


class CosineSimilarity(Elementwise):
    """The cosine of the angle between the tensors, times `multiplier`, divided by `scale`.

    Two tensors of zeros have the cosine 1, a tensor of zeros and another one 0.

    Args:
        multiplier: Factor of the cosine.
        scale: Divisor of the cosine.
        threshold: Minimum value that passes.
    """

    def __init__(
        self, *, multiplier: Positive = 1.0, scale: Positive = 1.0, threshold: float = 0.99
    ) -> None:
        super().__init__()
        self._multiplier, self._scale, self._threshold = multiplier, scale, threshold
        self._golden, self._target, self._product = BinarySum(), BinarySum(), BinarySum()

    def add(self, golden: Values, target: Values, error: Values) -> Values:
        """Add a piece."""
        totals = self._golden, self._target, self._product
        add_products(totals, ((golden, golden), (target, target), (golden, target)))
        return error

    def finish(self) -> Comparison:
        """Return the comparison."""
        cosine = math.nan if self.unequal else self._cosine()
        value = cosine * self._multiplier / self._scale
        return self.comparison(
            passed=value >= self._threshold,
            value=value,
            threshold=self._threshold,
            details={"cosine": cosine},
        )

    def _cosine(self) -> float:
        golden, target, product = self._golden, self._target, self._product
        if golden.total == 0 or target.total == 0:
            return float(golden.total == target.total)
        # Exponents of squares are even.
        norms = math.sqrt(golden.total) * math.sqrt(target.total)
        exponent = product.exponent - (golden.exponent + target.exponent) // 2
        return min(1.0, max(-1.0, math.ldexp(product.total / norms, exponent)))


class SQNR(Elementwise):
    """The signal-to-noise ratio: 10 log10(sum golden**2 / sum (target - golden)**2), in dB.

    It is infinite without noise, and minus infinity if there is noise but no signal.

    Args:
        threshold: Minimum value that passes, in dB.
    """

    def __init__(self, *, threshold: float = 30.0) -> None:
        super().__init__()
        self._threshold = threshold
        self._signal, self._noise = BinarySum(), BinarySum()

    def add(self, golden: Values, target: Values, error: Values) -> Values:
        """Add a piece."""
        add_square(self._signal, golden)
        add_square(self._noise, error)
        return error

    def finish(self) -> Comparison:
        """Return the comparison."""
        value = self._decibels()
        return self.comparison(
            passed=value >= self._threshold,
            value=value,
            threshold=self._threshold,
            unit="dB",
            details={"signal": self._signal.value(), "noise": self._noise.value()},
        )

    def _decibels(self) -> float:
        if self.unequal:
            return -math.inf
        if self._noise.total == 0:
            return math.inf
        if self._signal.total == 0:
            return -math.inf
        return 10 * (self._signal.log10() - self._noise.log10())
