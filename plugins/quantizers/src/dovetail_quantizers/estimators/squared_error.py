"""The squared error of quantizing the values of a histogram."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail_quantizers.estimators.histogram import Bins
from dovetail_quantizers.estimators.search import Grids

Floats = NDArray[np.float64]

# A bin narrower than this many steps is one value; a difference of integrals would cancel.
_NO_WIDTH = 1e-6
# Edges times grids per block; its arrays fit a core's cache.
_BLOCK = 1 << 14


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
