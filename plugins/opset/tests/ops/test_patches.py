"""Patches and glimpses against definitions written out in loops."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array
from dovetail_opset import PACKAGE
from dovetail_opset.ops.patches import Noise, PatchPadding

Run = Callable[..., Any]
pair = st.tuples(st.integers(1, 3), st.integers(1, 3))


def patches_of(x: Array, size: Any, stride: Any, rate: Any, padding: PatchPadding) -> Array:
    counts, befores = [], []
    for extent, f, s, d in zip(x.shape[1:3], size, stride, rate, strict=True):
        span = (f - 1) * d + 1
        if padding is PatchPadding.SAME:
            counts.append(math.ceil(extent / s))
            befores.append(max((counts[-1] - 1) * s + span - extent, 0) // 2)
        else:
            counts.append((extent - span) // s + 1)
            befores.append(0)
    n, channels = x.shape[0], x.shape[3]
    found = np.zeros((n, *counts, size[0], size[1], channels), x.dtype)
    for r, c, i, j in np.ndindex(*counts, *size):
        row = r * stride[0] + i * rate[0] - befores[0]
        column = c * stride[1] + j * rate[1] - befores[1]
        if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
            found[:, r, c, i, j] = x[:, row, column]
    return found.reshape(n, *counts, size[0] * size[1] * channels)


@settings(max_examples=80)
@given(pair, pair, pair, st.sampled_from(PatchPadding), st.integers(7, 9), st.integers(0, 2))
def test_patches(
    run_op: Run, size: Any, stride: Any, rate: Any, padding: PatchPadding, h: int, n: int
) -> None:
    x = np.arange(1, n * h * 8 * 2 + 1, dtype=np.int32).reshape(n, h, 8, 2)
    params = {"size": size, "stride": stride, "rate": rate, "padding": padding}
    y = run_op("ExtractPatches", x, **params)
    want = patches_of(x, size, stride, rate, padding)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, want, strict=True)


def test_the_odd_zero_is_behind(run_op: Run) -> None:
    x = np.array([1, 2, 3], np.float32).reshape(1, 1, 3, 1)
    params = {"size": (1, 2), "stride": (1, 1), "rate": (1, 1), "padding": PatchPadding.SAME}
    y = run_op("ExtractPatches", x, **params)
    np.testing.assert_array_equal(y[0, 0], [[1, 2], [2, 3], [3, 0]])


def test_patches_refuse_what_does_not_fit(run_op: Run) -> None:
    x = np.zeros((1, 3, 3, 1), np.float32)
    params = {"size": (2, 2), "stride": (1, 1), "rate": (1, 3)}
    with pytest.raises(OpError, match="window of 4 does not fit spatial axis 1, which has 3"):
        run_op("ExtractPatches", x, padding=PatchPadding.VALID, **params)
    params["stride"] = (0, 1)
    with pytest.raises(OpError, match="stride sizes must be at least 1"):
        run_op("ExtractPatches", x, padding=PatchPadding.SAME, **params)


def begin_of(offset: float, extent: int, size: int, *, centered: bool, normalized: bool) -> int:
    """Say where a glimpse begins along one axis."""
    if centered:
        middle = extent / 2 + (offset * extent / 2 if normalized else offset)
        return math.trunc(middle - size / 2)
    return math.trunc(offset * extent if normalized else offset)


@settings(max_examples=80)
@given(st.data(), st.booleans(), st.booleans())
def test_glimpse(run_op: Run, data: st.DataObject, centered: bool, normalized: bool) -> None:
    size = data.draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    reach = 16 if not normalized else 4
    quarters = st.integers(-reach, reach).map(lambda q: q / 2 if not normalized else q / 4)
    offsets = np.array(data.draw(st.tuples(*[quarters] * 4)), np.float32).reshape(2, 2)
    x = np.arange(1, 2 * 8 * 4 * 2 + 1, dtype=np.float32).reshape(2, 8, 4, 2)
    params = {"centered": centered, "normalized": normalized, "noise": Noise.ZEROES}
    y = run_op("ExtractGlimpse", x, offsets, size=size, **params)
    want = np.zeros((2, *size, 2), np.float32)
    for n, r, c in np.ndindex(2, *size):
        row, column = (
            step + begin_of(float(o), extent, s, centered=centered, normalized=normalized)
            for step, o, extent, s in zip((r, c), offsets[n], (8, 4), size, strict=True)
        )
        if 0 <= row < 8 and 0 <= column < 4:
            want[n, r, c] = x[n, row, column]
    np.testing.assert_array_equal(y, want)


def test_noise_lies_beyond_the_image_only(run_op: Run, rng: Any) -> None:
    x = rng.uniform(5, 9, (1, 4, 4, 1)).astype(np.float32)
    params = {"size": (60, 60), "centered": False, "normalized": False}
    origin = np.full((1, 2), -2, np.float32)
    for noise in (Noise.UNIFORM, Noise.GAUSSIAN):
        first, second = (
            run_op("ExtractGlimpse", x, origin, noise=noise, **params) for _ in range(2)
        )
        np.testing.assert_array_equal(first[:, 2:6, 2:6], x)
        beyond = np.delete(first.reshape(60, 60), slice(2, 6), axis=0)
        assert (first != second).any()
        # 3360 numbers: their mean is some 0.02 off, ten times less than asked for
        middle = x.mean() if noise is Noise.GAUSSIAN else (x.min() + x.max()) / 2
        assert abs(beyond.mean() - middle) < 0.2
        if noise is Noise.UNIFORM:
            assert x.min() <= beyond.min() < beyond.max() <= x.max()
        else:
            assert abs(beyond.std() - x.std()) < 0.2
    assert PACKAGE.schemas["ExtractGlimpse"].op.is_pure is False


def test_a_glimpse_inside_has_no_noise(run_op: Run) -> None:
    x = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
    params = {"size": (2, 2), "centered": False, "normalized": False}
    y = run_op("ExtractGlimpse", x, np.ones((1, 2), np.float32), **params)
    np.testing.assert_array_equal(y.ravel(), [4, 5, 7, 8])


@pytest.mark.parametrize("offset", [np.nan, np.inf, -np.inf, 1e30])
def test_a_glimpse_far_away_sees_nothing(run_op: Run, offset: float) -> None:
    x = np.ones((1, 3, 3, 1), np.float32)
    offsets = np.array([[0, offset]], np.float32)
    y = run_op("ExtractGlimpse", x, offsets, size=(2, 2), noise=Noise.ZEROES)
    assert not y.any()


def test_glimpse_refusals(run_op: Run) -> None:
    x = np.zeros((2, 3, 3, 1), np.float32)
    with pytest.raises(OpError, match=r"the offsets in\[1\] must have shape \(2, 2\)"):
        run_op("ExtractGlimpse", x, np.zeros((1, 2), np.float32), size=(1, 1))
    with pytest.raises(OpError, match=r"size is \(0, 1\)"):
        run_op("ExtractGlimpse", x, np.zeros((2, 2), np.float32), size=(0, 1))
