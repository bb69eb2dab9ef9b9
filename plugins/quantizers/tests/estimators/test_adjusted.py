"""The adjusted estimator: zero is a point of the grid without a shift that clips."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_quantizers.estimators import Adjusted, MinMax
from dovetail_quantizers.grid import Scheme, grid_for

sizes = st.floats(2.0**-10, 2.0**20, width=32)


@settings(derandomize=True)
@given(below=sizes, above=sizes, bitwidth=st.sampled_from([2, 4, 8, 16]))
def test_the_grid_holds_both_extremes(below: float, above: float, bitwidth: int) -> None:
    estimator = Adjusted(bitwidth=bitwidth)
    estimator.observe(np.array([-below, above], np.float32))
    minimum, maximum = estimator.range()
    assert minimum <= -below
    assert maximum >= above
    # One end moves only, but for what rounding to a float64 makes of the other.
    assert min(-below - minimum, maximum - above) <= 1e-12 * (below + above)
    low, high = grid_for(minimum, maximum, bitwidth, Scheme.ASYMMETRIC).range
    # a float32 scale is within 2^-24 of what it should be
    assert low <= -below * (1 - 1e-7)
    assert high >= above * (1 - 1e-7)
    # the least scale with which both ends fit and zero is a point, looked for in all
    steps = (1 << bitwidth) - 1
    scale = min(max(below / n, above / (steps - n)) for n in range(1, steps))
    assert (maximum - minimum) / steps == pytest.approx(scale, rel=1e-9)


def test_worked_example() -> None:
    """-5.1..5.1: of 255 steps 127 and 128 are to either side; plainly, 5.1 is cut to 5.08."""
    plain, adjusted = MinMax(), Adjusted()
    for estimator in (plain, adjusted):
        estimator.observe(np.array([-5.1, 5.1]))
    assert grid_for(*plain.range(), 8, Scheme.ASYMMETRIC).range[1] == pytest.approx(5.08)
    low, high = grid_for(*adjusted.range(), 8, Scheme.ASYMMETRIC).range
    assert (low, high) == pytest.approx((-5.1, 5.1 * 128 / 127))


@pytest.mark.parametrize("limits", [(0.0, 3.0), (-3.0, 0.0), (2.0, 5.0), (-1e-6, 1e-6)])
def test_ranges_that_need_nothing(limits: tuple[float, float]) -> None:
    estimator = Adjusted()
    estimator.observe(np.array(limits))
    assert estimator.range() == limits


def test_a_symmetric_grid_needs_nothing() -> None:
    estimator = Adjusted(symmetric=True)
    estimator.observe(np.array([-1.8, 0.5]))
    assert estimator.range() == (-1.8, 0.5)
