"""Sums, means and pooling: against fractions, and against the float32 formula written out."""

from fractions import Fraction

import numpy as np
import pytest

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, Spec

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16 = DType.UFIXED_POINT_16


def rescaled(acc, scale, count, target, dtype):
    """Return sums on a grid by the float32 formula."""
    low, high = dtype.stored_range()
    m = np.float32(float(scale) / (count * float(target.scale)))
    v = np.float32(acc) * m + np.float32(-target.offset)
    return np.clip(np.rint(v), low, high)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean"])
@pytest.mark.parametrize("dtype", [U8, S8, U16])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_reductions(node, run_node, rng, op, dtype, keep_dims):
    low, high = dtype.stored_range()
    x = rng.integers(low, high + 1, (3, 5, 7)).astype(dtype.storage)
    grid, target = ScaleOffset(0.03, -9), ScaleOffset(0.21, -50)
    shape = (3, 1, 1) if keep_dims else (3,)
    view = node(
        op,
        [Spec(dtype, x.shape, grid)],
        [Spec(dtype, shape, target)],
        axes=[1, 2],
        keep_dims=keep_dims,
    )
    acc = (x.astype(int) - 9).sum(axis=(1, 2))
    count = 35 if op == "ReduceMean" else 1
    wanted = rescaled(acc, np.float32(0.03), count, target, dtype).reshape(shape)
    np.testing.assert_array_equal(run_node(view, x)[0], wanted)


def test_mean_of_words_is_nearly_nearest(node, run_node, rng):
    x = rng.integers(0, 65536, (200, 6)).astype(np.uint16)
    grid, target = ScaleOffset(0.001, -30000), ScaleOffset(0.0005, -20000)
    view = node("ReduceMean", [Spec(U16, x.shape, grid)], [Spec(U16, (200,), target)], axes=[1])
    for row, q in zip(x.tolist(), run_node(view, x)[0].tolist(), strict=True):
        real = sum(v - 30000 for v in row) * Fraction(grid.scale) / 6
        steps = min(max(real / Fraction(target.scale) + 20000, 0), 65535)
        # below 2^17, the factor and the product are off by 2^-7 and 2^-8 at most, the sum by 2^-9
        assert abs(steps - q) <= 0.5 + 2**-7 + 2**-8 + 2**-9


def test_mean_of_same_grid_rounds_ties_to_even(node, run_node):
    x = np.uint8([[0, 1], [1, 2], [3, 4]])
    grid = ScaleOffset(0.3, 0)
    view = node("ReduceMean", [Spec(U8, (3, 2), grid)], [Spec(U8, (3,), grid)], axes=[1])
    assert run_node(view, x)[0].tolist() == [0, 2, 4]


def test_sums_of_several_scales(node, run_node):
    x = np.int8([[1, 2], [3, 4]])
    grid = AxisScaleOffset(0, np.float32([1, 0.5]))
    outs = [Spec(S8, (2,), ScaleOffset(0.5))]
    view = node("ReduceSum", [Spec(S8, (2, 2), grid)], outs, axes=[0])
    assert run_node(view, x)[0].tolist() == [5, 8]


@pytest.mark.parametrize("exclusive", [False, True])
def test_cumulative_sum(node, run_node, exclusive):
    x = np.uint8([[5, 6, 7, 8]])
    grid, target = ScaleOffset(0.5, -4), ScaleOffset(0.5, -10)
    view = node(
        "CumulativeSum",
        [Spec(U8, (1, 4), grid)],
        [Spec(U8, (1, 4), target)],
        axis=1,
        exclusive=exclusive,
    )
    wanted = [10, 11, 13, 16] if exclusive else [11, 13, 16, 20]
    assert run_node(view, x)[0].tolist() == [wanted]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("ceil", [0, 1])
def test_average_pooling(node, run_node, rng, padded, ceil):
    x = rng.integers(0, 256, (2, 5, 6, 3)).astype(np.uint8)
    grid, target = ScaleOffset(0.03, -90), ScaleOffset(0.02, -128)
    params = {"filter_size": [3, 2], "stride": [2, 2], "pad_amount": [[1, 1], [0, 1]]}
    shape = (2, 3, 4 if ceil else 3, 3)
    view = node(
        "PoolAvg2d",
        [Spec(U8, x.shape, grid)],
        [Spec(U8, shape, target)],
        **params,
        count_pad_for_edges=padded,
        rounding_mode=ceil,
    )
    level = np.full((2, 9, 10, 3), 0)
    level[:, 1:6, :6] = x.astype(int) - 90
    inside = np.zeros((9, 10), int)
    inside[1:6, :6] = 1
    wanted = np.empty(shape)
    for i in range(3):
        for j in range(shape[2]):
            window = slice(2 * i, 2 * i + 3), slice(2 * j, 2 * j + 2)
            count = 6 if padded else max(inside[window].sum(), 1)
            acc = level[:, window[0], window[1]].sum(axis=(1, 2))
            wanted[:, i, j] = rescaled(acc, np.float32(0.03), count, target, U8)
    np.testing.assert_array_equal(run_node(view, x)[0], wanted)


@pytest.mark.parametrize("scale", [0.0, 1e-38, 3e38])
def test_extreme_scales_of_result(node, run_node, scale):
    x = np.uint8([[0, 0], [3, 3], [9, 9]])
    outs = [Spec(U8, (3,), ScaleOffset(scale, -7))]
    view = node("ReduceMean", [Spec(U8, (3, 2), ScaleOffset(0.1, -3))], outs, axes=[1])
    wanted = [0, 7, 255] if scale == 1e-38 else [7, 7, 7]
    assert run_node(view, x)[0].tolist() == wanted


def test_sum_of_nothing_is_zero_point(node, run_node):
    grid = ScaleOffset(0.1, -3)
    view = node("ReduceSum", [Spec(U8, (2, 0), grid)], [Spec(U8, (2,), grid)], axes=[1])
    assert run_node(view, np.zeros((2, 0), np.uint8))[0].tolist() == [3, 3]


def test_correlation_adds_exact_products(node, run_node, rng):
    left, right = rng.integers(0, 256, (2, 1, 2, 5, 6)).astype(np.uint8)
    ga, gb, target = ScaleOffset(0.03, -90), ScaleOffset(0.05, -9), ScaleOffset(0.4, -100)
    ins = [Spec(U8, left.shape, ga), Spec(U8, left.shape, gb)]
    out = Spec(U8, (1, 2, 5, 3), target)
    (y,) = run_node(node("Correlation1D", ins, [out], displacement=1, shift=0), left, right)
    acc = np.zeros(out.shape, int)
    for d, w in np.ndindex(3, 5):
        if 0 <= w + d - 1 < 5:
            products = (left[:, :, w].astype(int) - 90) * (right[:, :, w + d - 1].astype(int) - 9)
            acc[:, :, w, d] = products.sum(axis=-1)
    scale = float(np.float32(0.03)) * float(np.float32(0.05))
    np.testing.assert_array_equal(y, rescaled(acc, scale, 6, target, U8))


@pytest.mark.parametrize("dtype", [U8, U16])
def test_moments(node, run_node, rng, dtype):
    x = rng.integers(0, 256, (4, 3, 5)).astype(dtype.storage)
    grid, first, second = ScaleOffset(0.1, -100), ScaleOffset(0.2, -50), ScaleOffset(1.0)
    outs = [Spec(dtype, (4,), first), Spec(dtype, (4,), second)]
    view = node("Moments", [Spec(dtype, x.shape, grid)], outs, axes=[1, 2], keep_dims=False)
    mean, variance = run_node(view, x)
    same = node("ReduceMean", [Spec(dtype, x.shape, grid)], outs[:1], axes=[1, 2])
    np.testing.assert_array_equal(mean, run_node(same, x)[0])
    for row, q in zip(x.reshape(4, -1).tolist(), variance.tolist(), strict=True):
        center = Fraction(sum(row), 15)
        exact = sum((v - center) ** 2 for v in row) / 15 * Fraction(grid.scale) ** 2
        assert q == min(round(exact), 255 if dtype is U8 else 65535)
