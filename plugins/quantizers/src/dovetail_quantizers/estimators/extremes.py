"""The extremes of observed values, and the range estimators `min-max` and `adjusted`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.calibration import finite, nothing_observed
from dovetail.ir import Array
from dovetail_quantizers.grid import MINIMUM_RANGE, Target

# Elements of a piece; with the arrays computed from them they fit a core's cache.
_PIECE = 1 << 16
_FLOAT_MAX = float(np.finfo(np.float32).max)


def pieces(batch: Array) -> Iterator[tuple[Array, float, float]]:
    """Yield the finite elements of a batch in pieces, each with its minimum and maximum.

    Args:
        batch: Real values, any shape.

    Yields:
        Pieces (n,) of 1 to 65536 elements, views of the batch where all of them are finite.
    """
    values = batch.ravel(order="K")  # no copy if the elements are contiguous in some order
    for start in range(0, values.size, _PIECE):
        piece = values[start : start + _PIECE]
        minimum, maximum = piece.min(), piece.max()
        # NaN propagates to both, so no second pass is needed if all elements are finite.
        if not (np.isfinite(minimum) and np.isfinite(maximum)):
            piece = finite(piece)
            if not piece.size:
                continue
            minimum, maximum = piece.min(), piece.max()
        yield piece, float(minimum), float(maximum)


class Extremes:
    """The smallest and the largest finite value so far."""

    def __init__(self) -> None:
        self._minimum = np.inf
        self._maximum = -np.inf

    def observe(self, batch: Array) -> None:
        """Observe the finite elements of a batch of any shape."""
        for _, minimum, maximum in pieces(batch):
            self.widen(minimum, maximum)

    def widen(self, minimum: float, maximum: float) -> None:
        """Observe the extremes of some values."""
        self._minimum = min(self._minimum, minimum)
        self._maximum = max(self._maximum, maximum)

    def range(self) -> tuple[float, float]:
        """Return the minimum and the maximum.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        if self._minimum > self._maximum:
            raise nothing_observed()
        return self._minimum, self._maximum


class MinMax:
    """The smallest and the largest observed value: the SDK's default, and its mode `tf`.

    Source: SDK reference, "Quantization Modes", TF.
    """

    def __init__(self) -> None:
        self._extremes = Extremes()

    def observe(self, batch: Array) -> None:
        """Observe the values of one run, of any shape."""
        self._extremes.observe(batch)

    def range(self) -> tuple[float, float]:
        """Return the minimum and the maximum.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        return self._extremes.range()


class Adjusted:
    """Expands one end of the range until zero is a point of the grid.

    The grid of the plain extremes is shifted by up to half a step, so that zero is a point; this
    clips one end. This estimator expands the range instead, at the end that needs less, so nothing
    clips. The reference only says that one end is expanded if necessary.

    Args:
        bitwidth: Bits of the grid, 2 to 16.
        symmetric: Whether the grid is symmetric: then it never clips.
        unsigned_symmetric: Whether a symmetric grid is unsigned if no value is negative; has no
            effect here.

    Raises:
        ConfigError: The bitwidth is out of range.

    Source: SDK reference, "Quantization Modes", TF Adjusted.
    """

    def __init__(
        self, *, bitwidth: int = 8, symmetric: bool = False, unsigned_symmetric: bool = False
    ) -> None:
        self._target = Target(bitwidth, symmetric, unsigned_symmetric)
        self._extremes = Extremes()

    def observe(self, batch: Array) -> None:
        """Observe the values of one run, of any shape."""
        self._extremes.observe(batch)

    def range(self) -> tuple[float, float]:
        """Return the minimum and the maximum, one of them expanded.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        minimum, maximum = self._extremes.range()
        # A range on one side of zero ends at zero; a tiny range is widened by the grid.
        if self._target.symmetric or not minimum < 0 < maximum or maximum - minimum < MINIMUM_RANGE:
            return minimum, maximum
        steps = (1 << self._target.bitwidth) - 1
        ratio = -minimum / (maximum - minimum) * steps
        # Candidates for the number of steps below zero; the scale must fit both sides.
        choices = {min(max(int(ratio) + more, 1), steps - 1) for more in (0, 1)}
        scale, below = min(
            (max(-minimum / below, maximum / (steps - below)), below) for below in choices
        )
        # Within float32, unless the values themselves are not.
        moved = np.clip([-scale * below, scale * (steps - below)], -_FLOAT_MAX, _FLOAT_MAX)
        return min(float(moved[0]), minimum), max(float(moved[1]), maximum)
