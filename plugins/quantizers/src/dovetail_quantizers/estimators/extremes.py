"""The least and the greatest finite value of batches, in one quick pass over each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.calibration import finite, nothing_observed
from dovetail.ir import Array

# Elements of a piece: with what is computed from them they stay in a core's own cache.
_PIECE = 1 << 16


def pieces(batch: Array) -> Iterator[tuple[Array, float, float]]:
    """Return the finite elements of a batch in pieces, each with its least and greatest.

    Args:
        batch: Real values, any shape.

    Yields:
        Pieces (n,) of 1 to 65536 elements, views of the batch where all of them are finite.
    """
    values = batch.ravel(order="K")  # no copy where the elements lie together in any order
    for start in range(0, values.size, _PIECE):
        piece = values[start : start + _PIECE]
        minimum, maximum = piece.min(), piece.max()
        # NaN spreads to both, so nothing is looked at again where all elements are finite.
        if not (np.isfinite(minimum) and np.isfinite(maximum)):
            piece = finite(piece)
            if not piece.size:
                continue
            minimum, maximum = piece.min(), piece.max()
        yield piece, float(minimum), float(maximum)


class Extremes:
    """The least and the greatest finite value so far."""

    def __init__(self) -> None:
        self._least = np.inf
        self._greatest = -np.inf

    def observe(self, batch: Array) -> None:
        """Take the finite elements of a batch into account, any shape."""
        for _, minimum, maximum in pieces(batch):
            self.widen(minimum, maximum)

    def widen(self, minimum: float, maximum: float) -> None:
        """Take values into account of which these are the extremes."""
        self._least = min(self._least, minimum)
        self._greatest = max(self._greatest, maximum)

    def range(self) -> tuple[float, float]:
        """Return the least and the greatest value.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        if self._least > self._greatest:
            raise nothing_observed()
        return self._least, self._greatest
