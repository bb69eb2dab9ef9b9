"""The closed form of the squared error against a sum over many values."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail_quantizers.estimators import Bins
from dovetail_quantizers.estimators.least_squares import squared_error
from dovetail_quantizers.estimators.search import grids_of
from dovetail_quantizers.grid import Scheme

EDGES = np.array([-2.0, -1.25, -1.25, -0.5, 0.0, 0.75, 3.0])
COUNTS = np.array([7, 5, 0, 20, 11, 2])  # the five are one value, -1.25
# Whole, cut at either side, to one side only, and far within.
LEAST, GREATEST = np.array([-2, -2, -0.6, 0, -0.01]), np.array([3, 1, 2, 3, 0.02])


@pytest.mark.parametrize("bitwidth", [2, 4, 8])
@pytest.mark.parametrize("scheme", [Scheme.ASYMMETRIC, Scheme.SYMMETRIC])
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_is_the_mean_over_values_spread_evenly(
    bitwidth: int, scheme: Scheme, weight: float
) -> None:
    grids = grids_of(LEAST, GREATEST, bitwidth, scheme)
    found = squared_error(Bins(EDGES, COUNTS, 100, 0.75), grids, clipping_weight=weight)
    assert found.shape == LEAST.shape
    for one, scale, below, above in zip(found, grids.scales, grids.below, grids.above, strict=True):
        expected = 0.0
        for start, stop, count in zip(EDGES, EDGES[1:], COUNTS, strict=False):
            # the middles of 20,000 parts: exact to the square of a part's width
            spread = start + (stop - start) * (np.arange(20_000) + 0.5) / 20_000
            held = np.clip(spread, below * scale, above * scale)
            rounding = held - np.rint(held / scale) * scale
            expected += count * float(np.mean(rounding**2 + weight * (spread - held) ** 2))
        assert one == pytest.approx(expected, rel=1e-4)


def test_zeros_and_nothing_cost_nothing() -> None:
    grids = grids_of(LEAST, GREATEST, 8, Scheme.ASYMMETRIC)
    empty = Bins(np.array([0.0, 0.0]), np.array([0]), 9, 1.0)
    assert squared_error(empty, grids).tolist() == [0] * 5


def test_many_grids_are_as_each_alone() -> None:
    generator = np.random.default_rng(5)
    edges = np.sort(generator.normal(size=4097))
    bins = Bins(edges, generator.integers(0, 9, 4096), 0, 0.01)
    minimum, maximum = -generator.random(30) - 0.1, generator.random(30) + 0.1
    together = squared_error(bins, grids_of(minimum, maximum, 8, Scheme.ASYMMETRIC))
    alone = [
        squared_error(bins, grids_of(minimum[i : i + 1], maximum[i : i + 1], 8, Scheme.ASYMMETRIC))
        for i in range(30)
    ]
    assert together == pytest.approx(np.concatenate(alone), rel=1e-12)
