"""The finite extremes of batches, in one pass over each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.calibration import finite, nothing_observed
from dovetail.ir import Array

# Elements of a piece; with the arrays computed from them they fit a core's cache.
_PIECE = 1 << 16


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
        self._least = np.inf
        self._greatest = -np.inf

    def observe(self, batch: Array) -> None:
        """Observe the finite elements of a batch of any shape."""
        for _, minimum, maximum in pieces(batch):
            self.widen(minimum, maximum)

    def widen(self, minimum: float, maximum: float) -> None:
        """Observe the extremes of some values."""
        self._least = min(self._least, minimum)
        self._greatest = max(self._greatest, maximum)

    def range(self) -> tuple[float, float]:
        """Return the minimum and the maximum.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        if self._least > self._greatest:
            raise nothing_observed()
        return self._least, self._greatest
