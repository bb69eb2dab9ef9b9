"""Correlation1D against its definition written out in loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import OpError

Run = Callable[..., Any]

extents = st.tuples(*[st.integers(0, 3)] * 2, st.integers(0, 6), st.integers(0, 4))


@settings(deadline=None)  # the loops take their time
@given(extents, st.integers(0, 4), st.integers(-7, 7), st.integers(0, 99))
def test_each_place_and_displacement(
    run_op: Run, shape: tuple[int, ...], displacement: int, shift: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    left, right = (rng.standard_normal(shape, np.float32) for _ in range(2))
    y = run_op("Correlation1D", left, right, displacement=displacement, shift=shift)
    want = np.zeros((*shape[:3], 2 * displacement + 1))
    for n, row, column, d in np.ndindex(*want.shape):
        there = column + d - (displacement - shift)
        if 0 <= there < shape[2] and shape[3]:
            products = [
                float(left[n, row, column, c] * right[n, row, there, c]) for c in range(shape[3])
            ]
            want[n, row, column, d] = sum(products) / len(products)
    assert y.dtype == np.float32
    assert y.shape == want.shape
    # float32 means of at most 4 products of numbers near 1
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_finds_the_disparity(run_op: Run) -> None:
    # The right image is the left one moved by two columns: the best fit is two to the right.
    right = np.random.default_rng(5).standard_normal((1, 4, 12, 64), np.float32)
    left = np.roll(right, -2, axis=2)
    y = run_op("Correlation1D", left, right, displacement=3, shift=0)
    assert (y[:, :, 3:9].argmax(axis=3) - 3 == 2).all()


def test_refuses_images_that_differ(run_op: Run) -> None:
    x, params = np.zeros((1, 2, 3, 4), np.float32), {"displacement": 1, "shift": 0}
    with pytest.raises(
        OpError, match=r"the same shape, but have \(1, 2, 3, 4\) and \(1, 2, 4, 4\)"
    ):
        run_op("Correlation1D", x, np.zeros((1, 2, 4, 4), np.float32), **params)
    with pytest.raises(OpError, match="different types: FLOAT_32 and FLOAT_64"):
        run_op("Correlation1D", x, x.astype(np.float64), **params)
    with pytest.raises(OpError, match="rank 4"):
        run_op("Correlation1D", x[0], x[0], **params)
