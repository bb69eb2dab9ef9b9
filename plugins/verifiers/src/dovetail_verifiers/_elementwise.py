"""The base of verifiers of single elements: pieces in float64, NaN and infinities, the worst.

An element matches without error if both values are the same infinity or both NaN. Any other element
with a value that is not finite does not match, and its error is infinite. None of them enters the
sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.verification import Comparison, Worst

Values = NDArray[np.float64]

# Elements. Three arrays of them stay in the cache; for longer ones BLAS would start threads, and
# inner products would take three times as long.
PIECE = 1 << 13


class Elementwise(ABC):
    """Compares elements one by one.

    Attributes:
        elements: Count of all elements so far.
        finite: Count of those whose values are both finite.
        unequal: Count of those that do not match because a value is not finite.
        largest: Largest absolute error of the finite elements.
    """

    def __init__(self) -> None:
        self.elements = 0
        self.finite = 0
        self.unequal = 0
        self.largest = 0.0
        self._not_finite = dict.fromkeys(
            ("golden_nan", "golden_infinite", "target_nan", "target_infinite"), 0
        )
        self._blocks = 0
        self._rank = -np.inf
        self._worst: Worst | None = None
        self._scratch = np.empty((3, 0))

    @abstractmethod
    def add(self, golden: Values, target: Values, error: Values) -> Values:
        """Add a piece to the sums.

        Args:
            golden: Expected values, shape (n,), finite: 0 for elements that were not.
            target: Values to check, likewise.
            error: Their absolute differences.

        Returns:
            What to rank elements by to find the worst, shape (n,); often `error`.
        """

    def update(self, golden: Array, target: Array) -> None:
        """Compare a block of any shape."""
        if golden.size:
            size = min(PIECE, golden.size)
            if self._scratch.shape[1] < size:
                self._scratch = np.empty((3, size))
            with np.errstate(invalid="ignore", over="ignore", under="ignore"):
                self._add_pieces(golden, target)
        self._blocks += 1

    def comparison(
        self,
        *,
        passed: bool,
        value: float,
        threshold: float,
        unit: str = "",
        details: Mapping[str, float] | None = None,
    ) -> Comparison:
        """Return a comparison with the details of all verifiers of this kind."""
        return Comparison(
            passed=passed,
            value=value,
            threshold=threshold,
            unit=unit,
            worst=self._worst,
            details={
                **(details or {}),
                "largest_error": np.inf if self.unequal else self.largest,
                "unequal_not_finite": self.unequal,
                **self._not_finite,
            },
        )

    def _add_pieces(self, golden: Array, target: Array) -> None:
        # The iterator copies what is not contiguous piece by piece; it never copies an array.
        pieces = np.nditer(
            [golden, target],
            flags=["external_loop", "buffered", "zerosize_ok"],
            op_flags=[["readonly"], ["readonly"]],
            order="C",
            buffersize=self._scratch.shape[1],
        )
        start = 0
        for g, t in pieces:
            self._add_piece(g, t, start, golden.shape)
            start += g.size

    def _add_piece(self, g: Array, t: Array, start: int, shape: tuple[int, ...]) -> None:
        golden, target, error = self._scratch[:, : g.size]
        np.copyto(golden, g, casting="same_kind")
        np.copyto(target, t, casting="same_kind")
        _absolute_difference(g, t, golden, target, error)
        self.elements += g.size
        largest = float(error[error.argmax()])  # NaN if there is one
        differs = largest != 0
        if not np.isfinite(largest):
            self._settle(golden, target, error, start, shape)
            largest = float(error.max())
        else:
            self.finite += g.size
        self.largest = max(self.largest, largest)
        rank = self.add(golden, target, error)
        if differs and self._rank < np.inf:
            self._find_worst(rank, start, shape)

    def _settle(
        self, golden: Values, target: Values, error: Values, start: int, shape: tuple[int, ...]
    ) -> None:
        """Count the elements that are not finite, and replace them by zeros."""
        odd = ~(np.isfinite(golden) & np.isfinite(target))
        g, t = golden[odd], target[odd]
        for name, values in (("golden", g), ("target", t)):
            nans = int(np.count_nonzero(np.isnan(values)))
            self._not_finite[f"{name}_nan"] += nans
            self._not_finite[f"{name}_infinite"] += int(np.count_nonzero(np.isinf(values)))
        unequal = (g != t) & ~(np.isnan(g) & np.isnan(t))
        self.finite += odd.size - g.size
        self.unequal += int(np.count_nonzero(unequal))
        if unequal.any() and self._rank < np.inf:
            first = int(np.argmax(unequal))
            index = start + int(np.flatnonzero(odd)[first])
            self._rank = np.inf  # nothing is worse
            self._worst = self._located(index, float(g[first]), float(t[first]), shape)
        golden[odd] = target[odd] = error[odd] = 0

    def _find_worst(self, rank: Values, start: int, shape: tuple[int, ...]) -> None:
        golden, target, error = self._scratch[:, : rank.size]
        worst = int(rank.argmax())
        if error[worst] == 0:
            worst = int(np.where(error > 0, rank, -np.inf).argmax())
        if rank[worst] > self._rank and error[worst] > 0:
            self._rank = float(rank[worst])
            values = float(golden[worst]), float(target[worst])
            self._worst = self._located(start + worst, *values, shape)

    def _located(self, flat: int, golden: float, target: float, shape: tuple[int, ...]) -> Worst:
        index = tuple(int(i) for i in np.unravel_index(flat, shape))
        return Worst(self._blocks, index, golden, target)


def _absolute_difference(g: Array, t: Array, golden: Values, target: Values, out: Values) -> None:
    """Write absolute differences, which are exact for 64-bit integers of the same type."""
    if g.dtype.kind in "iu" and g.dtype.itemsize == 8 and g.dtype == t.dtype:
        unsigned = g.dtype.newbyteorder("=").str.replace("i", "u")
        high, low = np.maximum(g, t), np.minimum(g, t)
        out[:] = high.view(unsigned) - low.view(unsigned)  # wraps around to the true difference
        return
    np.subtract(target, golden, out=out)
    np.abs(out, out=out)
