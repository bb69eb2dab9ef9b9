"""The range estimator `entropy`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dovetail_quantizers.estimators.histogram import Bins
from dovetail_quantizers.estimators.search import Grids, RangeSearch, cheapest_range

Floats = NDArray[np.float64]

_LEAST_MEAN_COUNT = 16


class Entropy(RangeSearch):
    """Minimizes the lost information: the Kullback-Leibler divergence of the quantized values.

    P is the histogram, with values beyond the grid moved to the last bin within. Q is what the grid
    preserves of it: all bins that round to one point are equal, and values beyond are unknown. Both
    cover the bins that are not empty, on the final grid of the range, so both sides are clipped
    independently. Zeros are left out, because every grid represents them.

    No range is clipped so far that a step is smaller than a bin: the loss by rounding would be
    invisible. With 16 bits this leaves the whole range. So do few values: bins are merged until one
    has 16 values on average, because random differences between bins would count as information.

    Args:
        bitwidth: Bits of the grid, 2 to 16.
        symmetric: Whether the grid is symmetric.
        unsigned_symmetric: Whether a symmetric grid is unsigned if no value is negative.
        bins: Of the histogram.

    Raises:
        ConfigError: A parameter is out of range.

    Source: S. Migacz, 8-bit Inference with TensorRT, GTC 2017, for ranges symmetric about zero.
    """

    def range(self) -> tuple[float, float]:
        """Return the range of minimum divergence; the whole range if no other is better.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        bins = self._histogram.contents()
        enough = int(bins.counts.sum()) // _LEAST_MEAN_COUNT
        bins = self._histogram.contents(max(enough, 2))
        span = max(bins.maximum, 0) - min(bins.minimum, 0)
        ratio = span / bins.width / (1 << self._target.bitwidth)
        return cheapest_range(
            bins,
            divergence,
            self._target.bitwidth,
            self._target.scheme(bins.minimum),
            deepest=math.log2(ratio) if ratio > 1 else 0.0,
        )


def divergence(bins: Bins, grids: Grids) -> Floats:
    """Return the divergence of the values on each of several grids (g,), (g,).

    It is infinite for a grid with all values beyond its ends.
    """
    full = bins.counts > 0
    centers = ((bins.edges[:-1] + bins.edges[1:]) / 2)[full]
    counts = bins.counts[full].astype(np.float64)
    if not counts.size:
        return np.zeros(grids.scales.size)
    return np.array(
        [
            _of_one(counts, np.rint(centers / scale), below, above)
            for scale, below, above in zip(grids.scales, grids.below, grids.above, strict=True)
        ]
    )


def _of_one(counts: Floats, steps: Floats, below: float, above: float) -> float:
    """Return the divergence on one grid of bins that round to `steps`, in order."""
    start, stop = np.searchsorted(steps, [below, above + 1])
    if start == stop:
        return math.inf
    held = counts[start:stop]
    # Bins that round to one point form a run; each gets the mean of its run.
    firsts = np.flatnonzero(np.diff(steps[start:stop], prepend=-math.inf))
    lengths = np.diff(firsts, append=held.size)
    known = np.repeat(np.add.reduceat(held, firsts) / lengths, lengths) / held.sum()
    true = held.copy()
    true[0] += counts[:start].sum()
    true[-1] += counts[stop:].sum()
    true /= counts.sum()
    return float(true @ np.log(true / known))
