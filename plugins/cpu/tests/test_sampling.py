"""Sampling against the reference: exactly, since both do the same arithmetic in one order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_numpy.kernels import sampling

extent = st.integers(1, 5)


@settings(max_examples=80)
@given(
    st.lists(st.tuples(extent, extent), min_size=2, max_size=3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 2),
)
def test_linear(check_op, axes, batch, channels, corners, padding):
    rng = np.random.default_rng(len(axes))
    old, new = zip(*axes, strict=True)
    x = rng.standard_normal((batch, *old, channels)).astype(np.float32)
    grid = rng.uniform(-3, 3, (batch, *new, len(axes))).astype(np.float32)
    check_op("GridSample", x, grid, align_corners=corners, padding_mode=padding)


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("batch", [7, 15, 40, 8192])
def test_in_pieces(check_op, monkeypatch, padding, batch):
    monkeypatch.setattr(sampling, "BLOCK", 1)
    monkeypatch.setattr(sampling, "_LEAST", 4)
    monkeypatch.setattr(sampling, "_BATCH", batch)  # of 15 in each of five images
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 5, 6, 3)).astype(np.float32)
    grid = rng.uniform(-2, 2, (5, 3, 5, 2)).astype(np.float32)
    check_op("GridSample", x, grid, padding_mode=padding)


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("corners", [False, True])
def test_places_far_away_or_nowhere(check_op, padding, corners):
    x = np.full((1, 3, 3, 1), np.inf, np.float32)
    far = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e9, -50, 50]
    grid = np.array(np.meshgrid(far, far), np.float32).transpose(1, 2, 0)[None]
    check_op("GridSample", x, grid, padding_mode=padding, align_corners=corners)
    check_op("GridSample", np.ones_like(x), grid, padding_mode=padding, align_corners=corners)


def test_what_is_left_to_the_reference(check_op):
    x, grid = np.ones((1, 3, 3, 1), np.float32), np.zeros((1, 2, 2, 2), np.float32)
    check_op("GridSample", x, grid, mode=1, kernel=False)
    check_op("GridSample", x.astype(np.float64), grid.astype(np.float64), kernel=False)
    check_op("GridSample", x[:, :, :, :0], grid, kernel=False)
