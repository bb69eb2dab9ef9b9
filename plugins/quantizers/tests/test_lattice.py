"""Grids found again from weights that lie on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, dequantize, quantize
from dovetail_quantizers.planning.lattice import lattice

RNG = np.random.default_rng(23)


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(1e-6, 1e3),
    st.sampled_from([(-128, 127), (-127, 127), (0, 255), (-20, 200)]),
)
def test_stored_integers_come_back(seed: int, scale: float, ends: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    stored = rng.integers(ends[0], ends[1] + 1, (4, 50))
    stored[0, :2] = ends  # both ends occur, as a range from least to greatest makes them
    stored[0, 2] = 1  # no other whole number divides them all
    values = (stored * np.float32(scale)).astype(np.float32)
    found = lattice(values, 0)
    assert found is not None
    dtype, encoding = found
    assert isinstance(encoding, ScaleOffset)
    again = quantize(values, encoding, dtype).astype(np.int64) + encoding.offset
    np.testing.assert_array_equal(again, stored)
    assert dtype is (DType.SFIXED_POINT_8 if ends[1] <= 127 else DType.UFIXED_POINT_8)


def test_channels_have_scales_of_their_own() -> None:
    stored = RNG.integers(-127, 128, (3, 3, 4, 6))
    stored[0, 0, 0], stored[0, 0, 1] = 127, 1
    scales = RNG.uniform(0.001, 1, 6).astype(np.float32)
    values = (stored * scales).astype(np.float32)
    found = lattice(values, 3)
    assert found is not None
    dtype, encoding = found
    assert isinstance(encoding, AxisScaleOffset)
    np.testing.assert_allclose(encoding.scales, scales, rtol=1e-6)
    np.testing.assert_array_equal(quantize(values, encoding, dtype), stored)


def test_a_channel_of_zeros_has_any_scale() -> None:
    values = np.zeros((2, 4), np.float32)
    values[0] = np.array([1, -3, 5, 127]) * np.float32(0.017)
    values[1, :] = 0
    found = lattice(values, 0)
    assert found is not None
    np.testing.assert_allclose(
        dequantize(quantize(values, found[1], found[0]), found[1]), values, rtol=1e-6
    )


@pytest.mark.parametrize("axis", [0, None])
def test_other_weights_lie_on_no_grid(axis: int | None) -> None:
    assert lattice(RNG.standard_normal((4, 64)).astype(np.float32), axis) is None


def test_what_is_not_finite_lies_on_none() -> None:
    assert lattice(np.array([1, np.inf], np.float32), None) is None
    assert lattice(np.zeros((0,), np.float32), None) is None
