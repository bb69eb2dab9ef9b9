"""Convolutions against their definition written out in loops."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array

Run = Callable[..., Any]
# float32 sums of at most 300 products of numbers near 1, in another order than the loops'
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}

sizes = st.integers(1, 3)


def looped(x: Array, w: Array, b: Array, p: dict[str, Any], group: int) -> Array:
    """Sum over the taps of every output, one output after the other, in float64."""
    (top, bottom), (left, right) = p["pad_amount"]
    (sh, sw), (dh, dw) = p["stride"], p["dilation"]
    n, h, width, _ = x.shape
    fh, fw, taken, made = w.shape
    oh = (top + h + bottom - ((fh - 1) * dh + 1)) // sh + 1
    ow = (left + width + right - ((fw - 1) * dw + 1)) // sw + 1
    y = np.zeros((n, oh, ow, made))
    for i, r, c, k in np.ndindex(*y.shape):
        first = k // (made // group) * taken
        total = float(b[k])
        for u, v, j in np.ndindex(fh, fw, taken):
            row, column = r * sh + u * dh - top, c * sw + v * dw - left
            if 0 <= row < h and 0 <= column < width:
                total += float(x[i, row, column, first + j]) * float(w[u, v, j, k])
        y[i, r, c, k] = total
    return y


@st.composite
def geometry(draw: st.DrawFn) -> dict[str, Any]:
    pair = st.tuples(sizes, sizes)
    pads = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return {
        "filter": draw(pair),
        "stride": draw(pair),
        "dilation": draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "pad_amount": draw(st.tuples(pads, pads)),
        "image": draw(st.tuples(st.integers(5, 8), st.integers(5, 7))),
        "n": draw(st.integers(0, 2)),
    }


@given(geometry(), sizes, sizes, sizes, st.integers(0, 99))
def test_conv2d(
    run_op: Run, g: dict[str, Any], group: int, taken: int, each: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((g.pop("n"), *g.pop("image"), taken * group), np.float32)
    w = rng.standard_normal((*g.pop("filter"), taken, each * group), np.float32)
    b = rng.standard_normal(each * group, np.float32)
    y = run_op("Conv2d", x, w, b, group=group, **g)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, looped(x, w, b, g, group), **TOLERANCE)


@given(geometry(), sizes, sizes, st.integers(0, 99))
def test_depthwise_conv2d(
    run_op: Run, g: dict[str, Any], channels: int, each: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((g.pop("n"), *g.pop("image"), channels), np.float32)
    w = rng.standard_normal((*g.pop("filter"), 1, channels * each), np.float32)
    b = rng.standard_normal(channels * each, np.float32)
    y = run_op("DepthWiseConv2d", x, w, b, **g)
    # a depthwise convolution is one with a group for each channel
    np.testing.assert_allclose(y, looped(x, w, b, g, channels), **TOLERANCE)


def test_left_out_bias_is_zero(run_op: Run, rng: np.random.Generator) -> None:
    x, w = rng.random((1, 4, 4, 2), np.float32), rng.random((3, 3, 2, 4), np.float32)
    params = {"stride": (1, 1), "pad_amount": [(0, 0), (0, 0)]}
    with_zeros = run_op("Conv2d", x, w, np.zeros(4, np.float32), **params)
    np.testing.assert_array_equal(run_op("Conv2d", x, w, **params), with_zeros)


@pytest.mark.parametrize(
    ("x", "w", "params", "said"),
    [
        ((1, 5, 5, 4), (3, 3, 3, 8), {}, r"4 channels, but filters \(3, 3, 3, 8\) in 1 .* take 3"),
        ((1, 5, 5, 4), (3, 3, 2, 7), {"group": 2}, "7 output channels do not divide into 2 groups"),
        ((1, 5, 5, 4), (3, 3, 4, 8), {"group": 0}, "into 0 groups"),
        ((1, 5, 5, 4), (6, 3, 4, 8), {}, "window of 6 does not fit spatial axis 0, which has 5"),
        ((1, 5, 5, 4), (3, 3, 4, 8), {"stride": (1, 0)}, r"at least 1, but they are \(1, 0\)"),
        ((5, 5, 4), (3, 3, 4, 8), {}, r"rank 4, but its shape is \(5, 5, 4\)"),
    ],
)
def test_conv2d_refuses(
    run_op: Run, x: tuple[int, ...], w: tuple[int, ...], params: dict[str, Any], said: str
) -> None:
    settings = {"stride": (1, 1), "pad_amount": [(0, 0), (0, 0)]} | params
    with pytest.raises(OpError, match=said):
        run_op("Conv2d", np.zeros(x, np.float32), np.zeros(w, np.float32), **settings)


def test_refusals_name_bias_and_multiples(run_op: Run) -> None:
    x, w = np.zeros((1, 3, 3, 4), np.float32), np.zeros((1, 1, 1, 6), np.float32)
    params = {"stride": (1, 1), "pad_amount": [(0, 0), (0, 0)]}
    with pytest.raises(OpError, match="6 output channels are no multiple of 4 input channels"):
        run_op("DepthWiseConv2d", x, w, **params)
    bias = np.zeros(3, np.float32)
    with pytest.raises(OpError, match=r"bias in\[2\] must have shape \(8,\)"):
        run_op("DepthWiseConv2d", x, np.zeros((1, 1, 1, 8), np.float32), bias, **params)


def test_grouped_is_the_groups_side_by_side(run_op: Run, rng: np.random.Generator) -> None:
    x, w = rng.random((1, 6, 6, 6), np.float32), rng.random((2, 2, 2, 9), np.float32)
    params = {"stride": (2, 1), "pad_amount": [(1, 0), (0, 1)]}
    whole = run_op("Conv2d", x, w, group=3, **params)
    parts = [
        run_op("Conv2d", xs, ws, **params)
        for xs, ws in itertools.zip_longest(np.split(x, 3, axis=3), np.split(w, 3, axis=3))
    ]
    np.testing.assert_allclose(whole, np.concatenate(parts, axis=3), **TOLERANCE)
