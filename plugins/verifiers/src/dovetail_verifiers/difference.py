"""The verifiers of the size of the error: L1Error, MAE, MSE and ScaledDiff."""

from __future__ import annotations

import math

import numpy as np

from dovetail.verification import Comparison
from dovetail_verifiers._elementwise import Elementwise, Values
from dovetail_verifiers._parameters import NonNegative, Positive
from dovetail_verifiers._sums import BinarySum, add_square
from dovetail_verifiers.tolerance import ratio


class _AbsoluteSum(Elementwise):
    """Sums absolute errors."""

    def __init__(self) -> None:
        super().__init__()
        self._sum = 0.0

    def add(self, golden: Values, target: Values, error: Values) -> Values:
        """Add a piece."""
        self._sum += float(error.sum())
        return error


class L1Error(_AbsoluteSum):
    """The sum of |target - golden|, times `multiplier`, divided by `scale`.

    Args:
        multiplier: Factor of the sum.
        scale: Divisor of the sum, such as the count of elements or the range of a tensor.
        threshold: Maximum value that passes.
    """

    def __init__(
        self,
        *,
        multiplier: Positive = 1.0,
        scale: Positive = 1.0,
        threshold: NonNegative = 0.01,
    ) -> None:
        super().__init__()
        self._multiplier, self._scale, self._threshold = multiplier, scale, threshold

    def finish(self) -> Comparison:
        """Return the comparison."""
        value = math.inf if self.unequal else self._sum * self._multiplier / self._scale
        return self.comparison(
            passed=value <= self._threshold,
            value=value,
            threshold=self._threshold,
            details={"sum": self._sum},
        )


class MAE(_AbsoluteSum):
    """The mean of |target - golden| over the elements that are finite.

    Args:
        threshold: Maximum value that passes.
    """

    def __init__(self, *, threshold: NonNegative = 0.01) -> None:
        super().__init__()
        self._threshold = threshold

    def finish(self) -> Comparison:
        """Return the comparison."""
        value = math.inf if self.unequal else self._sum / max(self.finite, 1)
        return self.comparison(
            passed=value <= self._threshold, value=value, threshold=self._threshold
        )


class MSE(Elementwise):
    """The mean of (target - golden)**2 over the elements that are finite.

    Args:
        threshold: Maximum value that passes.
    """

    def __init__(self, *, threshold: NonNegative = 0.01) -> None:
        super().__init__()
        self._threshold = threshold
        self._squares = BinarySum()

    def add(self, golden: Values, target: Values, error: Values) -> Values:
        """Add a piece."""
        add_square(self._squares, error)
        return error

    def finish(self) -> Comparison:
        """Return the comparison."""
        value = math.inf if self.unequal else self._squares.divided(max(self.finite, 1)).value()
        return self.comparison(
            passed=value <= self._threshold, value=value, threshold=self._threshold
        )


class ScaledDiff(Elementwise):
    """The largest |target - golden|, divided by the largest |golden|.

    Args:
        threshold: Maximum value that passes.
    """

    def __init__(self, *, threshold: NonNegative = 0.01) -> None:
        super().__init__()
        self._threshold = threshold
        self._magnitude = 0.0

    def add(self, golden: Values, target: Values, error: Values) -> Values:
        """Add a piece."""
        low, high = float(np.min(golden)), float(np.max(golden))
        self._magnitude = max(self._magnitude, high, -low)
        return error

    def finish(self) -> Comparison:
        """Return the comparison."""
        value = math.inf if self.unequal else ratio(self.largest, self._magnitude)
        return self.comparison(
            passed=value <= self._threshold,
            value=value,
            threshold=self._threshold,
            details={"largest_golden": self._magnitude},
        )
