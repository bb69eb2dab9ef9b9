"""Grids found again from weights that lie on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, dequantize, quantize
from dovetail_quantizers.planning.grid_recovery import recover_grid

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
    found = recover_grid(values, 0)
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
    found = recover_grid(values, 3)
    assert found is not None
    dtype, encoding = found
    assert isinstance(encoding, AxisScaleOffset)
    np.testing.assert_allclose(encoding.scales, scales, rtol=1e-6)
    np.testing.assert_array_equal(quantize(values, encoding, dtype), stored)


def test_a_channel_of_zeros_has_any_scale() -> None:
    values = np.zeros((2, 4), np.float32)
    values[0] = np.array([1, -3, 5, 127]) * np.float32(0.017)
    values[1, :] = 0
    found = recover_grid(values, 0)
    assert found is not None
    np.testing.assert_allclose(
        dequantize(quantize(values, found[1], found[0]), found[1]), values, rtol=1e-6
    )


@pytest.mark.parametrize(
    ("ends", "zeros", "dtype"),
    [
        ((0, 255), (128, 100, 30, 200), DType.UFIXED_POINT_8),
        ((-128, 127), (5, -7, 0, 3), DType.UFIXED_POINT_8),
        ((0, 255), (128, 128, 128, 128), DType.SFIXED_POINT_8),
        ((-32768, 32767), (0, 0, 0, 0), DType.SFIXED_POINT_16),
        ((0, 65535), (32768, 32768, 32768, 32768), DType.SFIXED_POINT_16),
        ((0, 65535), (30000, 0, 65535, 7), DType.UFIXED_POINT_16),
    ],
)
@pytest.mark.parametrize("per_channel", [True, False])
def test_zero_points_and_16_bits(
    ends: tuple[int, int], zeros: tuple[int, ...], dtype: DType, per_channel: bool
) -> None:
    """Channels of 27 values each, as a small convolution has them; both ends occur."""
    stored = RNG.integers(ends[0], ends[1] + 1, (4, 3, 3, 3))
    stored[:, 0, 0, :2] = ends
    zero = np.array(zeros if per_channel else zeros[:1]).reshape(-1, 1, 1, 1)
    stored[:, 0, 1, 0] = zero[:, 0, 0, 0] + np.where(zero[:, 0, 0, 0] == ends[1], -1, 1)
    scale = RNG.uniform(0.001, 1, zero.shape).astype(np.float32)
    values = ((stored - zero) * scale).astype(np.float32)
    found = recover_grid(values, 0)
    assert found is not None
    made, encoding = found
    scales, offsets = encoding.scales_and_offsets(values.shape)
    # a scale is a quotient of two numbers that are float32, rounded once more
    np.testing.assert_allclose(np.broadcast_to(scales, scale.shape), scale, rtol=3e-7)
    again = quantize(values, encoding, made).astype(np.int64) + offsets
    np.testing.assert_array_equal(again, stored - zero)
    if per_channel:
        assert made is dtype
        assert isinstance(encoding, AxisScaleOffset)
        has_offsets = encoding.offsets is not None
        assert has_offsets == (not made.is_signed)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_few_numbers_lie_near_some_grid_of_16_bits_by_chance(count: int) -> None:
    for _ in range(20):
        assert recover_grid(RNG.standard_normal((3, count)).astype(np.float32), 0) is None


def test_one_value_off_the_grid_is_seen() -> None:
    values = (RNG.integers(-32768, 32768, (4, 500)) * np.float32(0.01)).astype(np.float32)
    assert recover_grid(values, 0) is not None
    values[2, 333] += np.float32(0.005)  # half a step
    assert recover_grid(values, 0) is None


@pytest.mark.parametrize("axis", [0, None])
def test_other_weights_lie_on_no_grid(axis: int | None) -> None:
    assert recover_grid(RNG.standard_normal((4, 64)).astype(np.float32), axis) is None


def test_what_is_not_finite_lies_on_none() -> None:
    assert recover_grid(np.array([1, np.inf], np.float32), None) is None
    assert recover_grid(np.zeros((0,), np.float32), None) is None
