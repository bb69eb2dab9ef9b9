"""A streaming histogram, with bounded memory and counts that do not depend on the batches.

A bin is 2^k wide and bin i holds the values from i * 2^k up to (i + 1) * 2^k, so zero is an edge
and two bins of one width are exactly one bin of the next. k is the smallest number with which the
bins cover zero and both extremes; if these move, bins are merged. So the counts depend only on the
values, not on their order or on the batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import ConfigError
from dovetail.ir import Array
from dovetail_quantizers.estimators.extremes import Extremes, pieces

# 8 to 16 bins for a step of an 8-bit grid over the whole range.
DEFAULT_BINS = 4096
# 2^126 and 2^-126 are normal float32 numbers both.
_MIN_EXPONENT, _MAX_FLOAT_32_EXPONENT = -126, 126

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bins:
    """The contents of a histogram, without long empty parts.

    edges: in order, (n + 1,), from the minimum to the maximum, with zero if there are zeros;
    counts: number of nonzero values between two edges, (n,); zeros: number of zeros;
    width: of a bin that is neither merged nor clipped at an extreme.
    """

    edges: Floats
    counts: Counts
    zeros: int
    width: float

    @property
    def minimum(self) -> float:
        """The smallest observed value."""
        return float(self.edges[0])

    @property
    def maximum(self) -> float:
        """The largest observed value."""
        return float(self.edges[-1])


class Histogram:
    """Counts values in bins of one width.

    Args:
        bins: The maximum number of bins; at least half are used once values differ.

    Raises:
        ConfigError: Too few bins.
    """

    def __init__(self, *, bins: int = DEFAULT_BINS) -> None:
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 16:
            raise ConfigError(
                f"a histogram of {bins} bins", hint=f"pass 16 or more, such as {DEFAULT_BINS}"
            )
        self._bins = bins
        self._extremes = Extremes()
        self._exponent = _MIN_EXPONENT
        self._first = 0  # index of the first bin: minus the number of those below zero
        self._counts: Counts = np.zeros(1, np.int64)
        self._zeros = 0

    def observe(self, batch: Array) -> None:
        """Count the finite elements of a batch, any shape."""
        for piece, minimum, maximum in pieces(batch):
            self._extremes.widen(minimum, maximum)
            if piece.dtype != np.float32:
                piece = piece.astype(np.float32 if piece.dtype == np.float16 else np.float64)
            self._reach(*self._extremes.range())
            indices = self._indices(piece)
            self._counts += np.bincount(indices, minlength=self._counts.size)
            self._zeros += int(np.count_nonzero(piece == 0))

    def contents(self, most: int | None = None) -> Bins:
        """Return the contents.

        Args:
            most: The maximum number of bins, at least 2; bins are merged to reach it.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        minimum, maximum = self._extremes.range()
        layout = (self._exponent, self._first, self._counts.size)
        if most is not None:
            layout = self._layout(min(minimum, 0.0), max(maximum, 0.0), most)
        counts = self._laid_out(*layout)
        exponent, first, size = layout
        counts[-first] -= self._zeros
        edges = np.ldexp(np.arange(first, first + size + 1).astype(np.float64), exponent)
        # Keep edges with values on one side; the bins between two other edges are empty.
        kept = np.zeros(edges.size, np.bool_)
        kept[:-1] |= counts > 0
        kept[1:] |= counts > 0
        kept[[0, -first, -1]] = True
        edges = np.clip(edges[kept], minimum, maximum)
        return Bins(edges, counts[kept[:-1]], self._zeros, math.ldexp(1.0, exponent))

    def _indices(self, values: Array) -> NDArray[np.intp]:
        """Return the index in `counts` of each value; all values must be covered by the bins."""
        if self._exponent > _MAX_FLOAT_32_EXPONENT:
            values = values.astype(np.float64)
        # A product with a power of two is exact.
        scaled: Array = values * values.dtype.type(math.ldexp(1.0, -self._exponent))
        if self._first < 0:
            np.floor(
                scaled, out=scaled
            )  # a cast alone rounds towards zero, which is down only for positive values
            scaled -= scaled.dtype.type(self._first)
        return scaled.astype(np.intp)

    def _reach(self, minimum: float, maximum: float) -> None:
        """Widen the bins, or add some, so that they cover both values."""
        layout = self._layout(min(minimum, 0.0), max(maximum, 0.0), self._bins)
        if layout != (self._exponent, self._first, self._counts.size):
            self._counts = self._laid_out(*layout)
            self._exponent, self._first, _ = layout

    def _laid_out(self, exponent: int, first: int, size: int) -> Counts:
        """Return the counts for wider or more bins, (size,)."""
        # 2^40 old bins per new one are more than all bins
        shift = min(exponent - self._exponent, 40)
        indices = (np.arange(self._first, self._first + self._counts.size) >> shift) - first
        counts = np.zeros(size, np.int64)
        np.add.at(counts, indices, self._counts)
        return counts

    def _layout(self, minimum: float, maximum: float, most: int) -> tuple[int, int, int]:
        """Return exponent of the width, first bin and number of bins for extremes around zero."""
        # Halves, because the whole range may exceed float64.
        half = maximum / most / 2 - minimum / most / 2
        exponent = max(self._exponent, math.frexp(half)[1]) if half else self._exponent
        while True:
            first = math.floor(math.ldexp(minimum, -exponent))
            size = math.floor(math.ldexp(maximum, -exponent)) - first + 1
            if size <= most:
                return exponent, first, size
            exponent += 1
