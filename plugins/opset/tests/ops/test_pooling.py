"""Pooling against its definition written out in loops, and its surprising facts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array
from dovetail_opset.ops.pooling import Rounding

Run = Callable[..., Any]


def windows(x: Array, g: dict[str, Any]) -> tuple[Array, list[list[Array]]]:
    """Collect the elements in the image of each window, and how many it has in the padding."""
    n, h, w, _ = x.shape
    (top, bottom), (left, right) = g["pad_amount"]
    (fh, fw), (sh, sw) = g["filter_size"], g["stride"]
    rounding = np.ceil if g["rounding_mode"] else np.floor
    oh = int(rounding((top + h + bottom - fh) / sh)) + 1
    ow = int(rounding((left + w + right - fw) / sw)) + 1
    padded, inside = np.zeros((oh, ow), int), []
    for r in range(oh):
        row = []
        for c in range(ow):
            ys = [y for y in range(r * sh - top, r * sh - top + fh) if y < h + bottom]
            xs = [v for v in range(c * sw - left, c * sw - left + fw) if v < w + right]
            real_ys, real_xs = [y for y in ys if 0 <= y < h], [v for v in xs if 0 <= v < w]
            padded[r, c] = len(ys) * len(xs) - len(real_ys) * len(real_xs)
            found = x[:, np.array(real_ys, int)][:, :, np.array(real_xs, int)]
            row.append(found.reshape(n, len(real_ys) * len(real_xs), x.shape[3]))
        inside.append(row)
    return padded, inside


@st.composite
def geometry(draw: st.DrawFn) -> dict[str, Any]:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    pads = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return {
        "filter_size": draw(pair),
        "stride": draw(pair),
        "pad_amount": draw(st.tuples(pads, pads)),
        "rounding_mode": draw(st.sampled_from(Rounding)),
    }


images = st.tuples(st.integers(0, 2), st.integers(3, 6), st.integers(3, 6), st.integers(0, 2))


@given(images, geometry(), st.integers(0, 99))
def test_pool_max(run_op: Run, shape: tuple[int, ...], g: dict[str, Any], seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(shape, np.float32) - 1
    y = run_op("PoolMax2d", x, **g)
    padded, inside = windows(x, g)
    assert y.shape == (shape[0], *padded.shape, shape[3])
    for r, c in np.ndindex(*padded.shape):
        # the padding holds 0; nothing at all gives 0 too
        zero = padded[r, c] > 0 or inside[r][c].shape[1] == 0
        want = inside[r][c].max(axis=1, initial=0 if zero else -np.inf)
        np.testing.assert_array_equal(y[:, r, c], want)


@given(images, geometry(), st.booleans(), st.integers(0, 99))
def test_pool_avg(
    run_op: Run, shape: tuple[int, ...], g: dict[str, Any], count_pads: bool, seed: int
) -> None:
    x = np.random.default_rng(seed).standard_normal(shape, np.float32)
    y = run_op("PoolAvg2d", x, count_pad_for_edges=count_pads, **g)
    padded, inside = windows(x, g)
    assert y.dtype == np.float32
    assert y.shape == (shape[0], *padded.shape, shape[3])
    for r, c in np.ndindex(*padded.shape):
        count = inside[r][c].shape[1]
        divisor = np.prod(g["filter_size"]) if count_pads else max(count, 1)
        want = inside[r][c].astype(np.float64).sum(axis=1) / divisor
        # at most 9 float32 numbers near 1 are added
        np.testing.assert_allclose(y[:, r, c], want, rtol=1e-5, atol=1e-6)


def test_padding_of_pool_max_holds_zero(run_op: Run) -> None:
    # The fact that surprises: an all-negative input gives 0 wherever a window meets the padding.
    x = np.full((1, 2, 2, 1), -5, np.float32)
    params = {"filter_size": (2, 2), "stride": (1, 1), "pad_amount": [(1, 0), (0, 0)]}
    np.testing.assert_array_equal(run_op("PoolMax2d", x, **params).ravel(), [0, -5])


def test_pool_max_of_integers(run_op: Run) -> None:
    x = np.arange(-8, 8, dtype=np.int32).reshape(1, 4, 4, 1)
    params = {"filter_size": (3, 3), "stride": (2, 2), "pad_amount": [(0, 0), (0, 0)]}
    y = run_op("PoolMax2d", x, rounding_mode=Rounding.CEIL, **params)
    np.testing.assert_array_equal(y.ravel(), [2, 3, 6, 7])


def test_refuses_a_window_that_does_not_fit(run_op: Run) -> None:
    params = {"filter_size": (2, 4), "stride": (1, 1), "pad_amount": [(0, 0), (0, 1)]}
    with pytest.raises(OpError, match="window of 4 does not fit spatial axis 1, which has 2"):
        run_op("PoolAvg2d", np.zeros((1, 2, 2, 1), np.float32), **params)
