"""The verifiers that allow each element a tolerance: RtolAtol and AdjustedRtolAtol."""

from __future__ import annotations

import math

import numpy as np

from dovetail.verification import Comparison
from dovetail_verifiers._elementwise import Elementwise, Values
from dovetail_verifiers._parameters import Count, NonNegative, Percentage


class RtolAtol(Elementwise):
    """The percentage of elements with |target - golden| > atolmargin + rtolmargin * |golden|.

    Args:
        rtolmargin: Tolerance relative to the golden value.
        atolmargin: Absolute tolerance.
        threshold: Maximum percentage that passes.
    """

    def __init__(
        self,
        *,
        rtolmargin: NonNegative = 0.01,
        atolmargin: NonNegative = 0.01,
        threshold: Percentage = 0.0,
    ) -> None:
        super().__init__()
        self._rtol, self._atol, self._threshold = rtolmargin, atolmargin, threshold
        self._outside = 0

    def add(self, golden: Values, target: Values, error: Values) -> Values:
        """Add a piece."""
        allowed = np.abs(golden)
        allowed *= self._rtol
        allowed += self._atol
        self._outside += int(np.count_nonzero(error > allowed))
        return np.subtract(error, allowed, out=allowed)

    def finish(self) -> Comparison:
        """Return the comparison."""
        outside = self._outside + self.unequal
        value = 100 * outside / self.elements if self.elements else 0.0
        return self.comparison(
            passed=value <= self._threshold,
            value=value,
            threshold=self._threshold,
            unit="%",
            details={"outside": outside},
        )


class AdjustedRtolAtol(Elementwise):
    """The largest absolute error, in steps of a grid over the golden tensor's range.

    The range includes zero, as that of a quantized tensor does.

    Args:
        levels_num: Number of levels that the range is divided into.
        threshold: Maximum error that passes, in levels.
    """

    def __init__(self, *, levels_num: Count = 256, threshold: NonNegative = 1.0) -> None:
        super().__init__()
        self._levels, self._threshold = levels_num, threshold
        self._minimum = self._maximum = 0.0

    def add(self, golden: Values, target: Values, error: Values) -> Values:
        """Add a piece."""
        self._minimum = min(self._minimum, float(golden.min()))
        self._maximum = max(self._maximum, float(golden.max()))
        return error

    def finish(self) -> Comparison:
        """Return the comparison."""
        step = self._maximum / self._levels - self._minimum / self._levels
        value = math.inf if self.unequal else ratio(self.largest, step)
        return self.comparison(
            passed=value <= self._threshold,
            value=value,
            threshold=self._threshold,
            unit="levels",
            details={"step": step, "golden_min": self._minimum, "golden_max": self._maximum},
        )


def ratio(error: float, size: float) -> float:
    """Return an error relative to a size: 0 for no error, infinite if only the size is 0."""
    if error == 0:
        return 0.0
    return error / size if size else math.inf
