"""Bytes and scales of float weights that were dequantized before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail_onednn.weight_levels import levels_of

SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int, low: int, high: int, scales: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    levels = rng.integers(low, high + 1, (rng.integers(1, 40), 6)).astype(np.float32)
    return levels * np.exp(rng.uniform(-20, 5, scales)).astype(np.float32)


@given(SEEDS, st.integers(-255, 0), st.integers(1, 255), st.sampled_from([1, 6]))
def test_weights_come_back_bit_by_bit(seed, low, width, scales) -> None:
    weights = drawn(seed, low, low + width, scales)
    found = levels_of(weights)
    if found is None:  # the numbers of the columns may then span more than a byte
        assert scales > 1
        assert low < -128 or low + width > 127
        return
    stored = found.bytes(weights)
    assert stored.dtype == np.int8
    real = (stored.astype(np.float32) + np.float32(found.offset)) * found.scales
    np.testing.assert_array_equal(real, weights)


@given(SEEDS)
def test_one_scale_is_preferred(seed) -> None:
    found = levels_of(drawn(seed, -127, 127, 1))
    assert found is not None
    assert (found.scales.shape, found.offset) == ((1,), 0)


def test_columns_may_have_different_largest_levels() -> None:
    levels = np.array([[127, 3, 0], [-5, 2, 0], [64, 1, 0]], np.float32)
    weights = levels * np.array([0.3, 0.007, 1], np.float32)
    found = levels_of(weights)
    assert found is not None
    np.testing.assert_array_equal(found.bytes(weights) * found.scales, weights)


@pytest.mark.parametrize("spoil", [np.nan, np.inf, 1.0001, 0.9999])
def test_other_weights_have_none(spoil) -> None:
    weights = drawn(3, -127, 127, 1)
    weights.flat[np.abs(weights).argmax() - 1] *= spoil
    assert levels_of(weights) is None


def test_the_largest_weights_have_levels_without_a_warning() -> None:
    largest = np.finfo(np.float32).max
    for top in (largest, np.nextafter(largest, np.float32(0))):
        weights = np.array([[top, -top, 0, top / 2]], np.float32).T
        found = levels_of(weights)
        assert found is not None
        np.testing.assert_array_equal(found.bytes(weights) * found.scales, weights)
    spoiled = np.array([[largest, np.nextafter(largest, np.float32(0)), largest / 3]], np.float32)
    assert levels_of(spoiled.T) is None


def test_drawn_weights_have_none() -> None:
    rng = np.random.default_rng(5)
    assert levels_of(rng.standard_normal((64, 16)).astype(np.float32)) is None


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_no_weights_have_none(shape) -> None:
    assert levels_of(np.empty(shape, np.float32)) is None


def test_zeros_have_one_scale() -> None:
    found = levels_of(np.zeros((4, 3), np.float32))
    assert found is not None
    assert found.scales.tolist() == [1.0]
