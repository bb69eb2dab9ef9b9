"""The range estimators that minimize the squared error: `mse`, `sqnr` and `enhanced`."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from dovetail_quantizers.estimators.histogram import Bins
from dovetail_quantizers.estimators.search import Grids, RangeSearch, cheapest_range

Floats = NDArray[np.float64]

# A bin narrower than this many steps is one value; a difference of integrals would cancel.
_NO_WIDTH = 1e-6
# Edges times grids per block; its arrays fit a core's cache.
_BLOCK = 1 << 14
# Bins for the first search: each is about a step of an 8-bit grid.
_ROUGH_BINS = 512


def squared_error(bins: Bins, grids: Grids, *, clipping_weight: float = 1.0) -> Floats:
    """Return the sum of squared errors on each of several grids.

    Values are assumed to be spread evenly over their bin, and the error is integrated in closed
    form, so it is correct even if a bin is wider than a step. Zeros are exact on any grid.

    Args:
        bins: The values.
        grids: Of g grids.
        clipping_weight: Weight of the squared error of clipping, relative to that of rounding.

    Returns:
        float64 (g,).
    """
    block = max(_BLOCK // bins.edges.size, 1)
    sums = [
        _sums(bins, grids.part(start, start + block), clipping_weight)
        for start in range(0, grids.scales.size, block)
    ]
    return np.asarray(np.concatenate(sums) * grids.scales**2)


def _sums(bins: Bins, grids: Grids, clipping_weight: float) -> Floats:
    """Return the sums in squared steps, (g,)."""
    steps = bins.edges / grids.scales[:, np.newaxis]
    held = np.clip(steps, grids.below[:, np.newaxis], grids.above[:, np.newaxis])
    nearest = np.rint(held)
    inner, outer = held - nearest, steps - held
    # The integral from 0: of the squared distance to the nearest point, 1/12 per step, then of the
    # squared distance to the end. Products, because `**` is far slower.
    cubes = inner * inner * inner + clipping_weight * (outer * outer * outer)
    width, area = np.diff(steps), np.diff(nearest / 12 + cubes / 3)
    thin = width < _NO_WIDTH
    if thin.any():
        at = inner * inner + clipping_weight * (outer * outer)
        area = np.where(thin, at[:, :-1], area)
        width = np.where(thin, 1.0, width)
    return np.asarray((area / width) @ bins.counts.astype(np.float64))


class LeastSquares(RangeSearch):
    """A search for the range with the minimum squared error, with a weight for clipping.

    Args:
        bitwidth: Bits of the grid, 2 to 16.
        symmetric: Whether the grid is symmetric.
        unsigned_symmetric: Whether a symmetric grid is unsigned if no value is negative.
        bins: Of the histogram.

    Raises:
        ConfigError: A parameter is out of range.
    """

    _clipping_weight = 1.0

    def range(self) -> tuple[float, float]:
        """Return the best range; the whole range if no other is better.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        bins = self._histogram.contents()
        many = bins.counts.size > _ROUGH_BINS
        rough = self._histogram.contents(_ROUGH_BINS) if many else None
        cost = partial(squared_error, clipping_weight=self._clipping_weight)
        scheme = self._target.scheme(bins.minimum)
        return cheapest_range(bins, cost, self._target.bitwidth, scheme, rough=rough)


class Mse(LeastSquares):
    """Minimizes the mean squared error of the quantized values.

    Source: SDK reference, qairt-quantizer, --act_quantizer_calibration; the search is ours.
    """


class Sqnr(LeastSquares):
    """Maximizes the signal-to-quantization-noise ratio.

    It returns the range of `mse`: the power of the signal is constant, so the ratio is largest
    where the error is smallest.

    Source: SDK reference, qairt-quantizer, --act_quantizer_calibration.
    """


class Enhanced(LeastSquares):
    """Clips long tails if this improves the remaining values enough.

    The reference only states the purpose. Here it is the minimum squared error, with errors of
    clipping counted three times: rounding errors have both signs and cancel out in sums, errors of
    clipping have one sign. So fewer tails are clipped than by `mse`.

    Source: SDK reference, "Quantization Modes", Enhanced.
    """

    _clipping_weight = 3.0
