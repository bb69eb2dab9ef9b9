"""The least and the greatest finite value of batches, in one quick pass over each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.calibration import finite, nothing_observed
from dovetail.ir import Array

# Elements of a piece: with what is computed from them they stay in a core's own cache.
_PIECE = 1 << 16


def pieces(batch: Array) -> Iterator[tuple[Array, float, float]]:
    """Gives the finite elements of a batch in pieces, each with its least and greatest.

    Args:
        batch: Real values, any shape.

    Yields:
        Pieces (n,) of 1 to 65536 elements, views of the batch where all of them are finite.
    """
    values = batch.ravel(order="K")  # no copy where the elements lie together in any order
    for start in range(0, values.size, _PIECE):
        piece = values[start : start + _PIECE]
        least, greatest = piece.min(), piece.max()
        # NaN spreads to both, so nothing is looked at again where all elements are finite.
        if not (np.isfinite(least) and np.isfinite(greatest)):
            piece = finite(piece)
            if not piece.size:
                continue
            least, greatest = piece.min(), piece.max()
        yield piece, float(least), float(greatest)


class Extremes:
    """The least and the greatest finite value so far."""

    def __init__(self) -> None:
        self._least = np.inf
        self._greatest = -np.inf

    def observe(self, batch: Array) -> None:
        """Takes the finite elements of a batch into account, any shape."""
        for _, least, greatest in pieces(batch):
            self.widen(least, greatest)

    def widen(self, least: float, greatest: float) -> None:
        """Takes values into account of which these are the extremes."""
        self._least = min(self._least, least)
        self._greatest = max(self._greatest, greatest)

    def range(self) -> tuple[float, float]:
        """Gives the least and the greatest value.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        if self._least > self._greatest:
            raise nothing_observed()
        return self._least, self._greatest
