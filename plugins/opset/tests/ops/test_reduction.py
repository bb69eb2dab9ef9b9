"""Reductions and running sums against Python's own, one element after the other."""

import itertools
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import OpError

Run = Callable[..., Any]

REDUCTIONS: dict[str, Callable[[list[float]], float]] = {
    "ReduceMean": statistics.fmean,
    "ReduceSum": lambda values: sum(values),
    "ReduceMax": max,
    "ReduceMin": min,
    "ReduceProd": math.prod,
    "ReduceSumSquare": lambda values: sum(v * v for v in values),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@given(st.lists(st.integers(0, 3), unique=True), st.booleans(), st.integers(0, 99))
def test_reductions(name: str, run_op: Run, axes: list[int], keep: bool, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((2, 3, 1, 4), np.float32)
    y = run_op(name, x, axes=axes, keep_dims=keep)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    left = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    assert y.shape == (kept if keep else left)
    for place, value in np.ndenumerate(y.reshape(kept)):
        over = tuple(slice(None) if i in axes else p for i, p in enumerate(place))
        want = REDUCTIONS[name](x[over].ravel().astype(float).tolist())
        # a float32 sum of at most 24 numbers
        assert value == pytest.approx(want, rel=1e-5, abs=1e-5)


def test_reductions_of_integers_nothing_and_scalars(run_op: Run) -> None:
    x = np.array([[1, 2], [-4, -7]], np.int32)
    np.testing.assert_array_equal(run_op("ReduceMean", x, axes=[1]), [1, -5])  # towards zero
    assert run_op("ReduceSum", x, axes=[0, 1]).dtype == np.int32
    empty = np.zeros((2, 0), np.float32)
    np.testing.assert_array_equal(run_op("ReduceSum", empty, axes=[1]), [0, 0])
    assert run_op("ReduceMax", np.float32(3).reshape(()), axes=[]) == 3
    with pytest.raises(OpError, match=r"\(2, 0\) has no elements along axes \(1,\)"):
        run_op("ReduceMax", empty, axes=[1])
    with pytest.raises(OpError, match="no elements along axes"):
        run_op("ReduceMin", empty, axes=[1])
    np.testing.assert_array_equal(run_op("ReduceProd", empty, axes=[1]), [1, 1])
    np.testing.assert_array_equal(run_op("ReduceMean", empty, axes=[1]), [np.nan, np.nan])
    with pytest.raises(OpError, match="no elements along axes"):  # integers have no NaN
        run_op("ReduceMean", np.zeros((2, 0), np.int32), axes=[1])


def test_reductions_of_integers_keep_their_type(run_op: Run) -> None:
    x = np.array([[2, 3], [-4, -7]], np.int64)
    for name, want in (
        ("ReduceMin", [2, -7]),
        ("ReduceProd", [6, 28]),
        ("ReduceSumSquare", [13, 65]),
    ):
        y = run_op(name, x, axes=[1])
        assert y.dtype == np.int64
        np.testing.assert_array_equal(y, want)
    flags = np.array([[True, False], [True, True]])
    np.testing.assert_array_equal(run_op("ReduceMin", flags, axes=[1]), [False, True])


def test_the_sum_of_squares_of_a_scalar_ignores_the_params(run_op: Run) -> None:
    x = np.array(-3, np.float32)
    for axes in ([], [0], [1, 0]):
        y = run_op("ReduceSumSquare", x, axes=axes, keep_dims=True)
        assert (y.shape, float(y)) == ((), 9)
    with pytest.raises(OpError, match="axes: 0 is not an axis"):
        run_op("ReduceMin", x, axes=[0])


@pytest.mark.parametrize("axes", [(), (0,), (2, 0), (0, 1, 2)])
@pytest.mark.parametrize("keep", [False, True])
def test_moments(run_op: Run, rng: np.random.Generator, axes: tuple[int, ...], keep: bool) -> None:
    x = (rng.standard_normal((2, 3, 4)) + 5).astype(np.float32)
    mean, variance = run_op("Moments", x, axes=axes, keep_dims=keep)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    left = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    assert mean.shape == variance.shape == (kept if keep else left)
    for place in np.ndindex(*kept):
        over = tuple(slice(None) if i in axes else p for i, p in enumerate(place))
        values = x[over].ravel().tolist()
        # float32 sums of at most 24 numbers near 5
        assert mean.reshape(kept)[place] == pytest.approx(statistics.fmean(values), rel=1e-6)
        spread = statistics.pvariance(values)
        assert variance.reshape(kept)[place] == pytest.approx(spread, rel=1e-5, abs=1e-6)


def test_moments_that_do_not_fit(run_op: Run) -> None:
    for x, axes, said in (
        (np.zeros((2, 3), np.float32), [2], "axes: 2 is not an axis"),
        (np.zeros((2, 3), np.float32), [-1], "axes: -1 is not an axis"),
        (np.zeros((2, 0), np.float32), [1], "no elements along axes"),
        (np.zeros((2, 3), np.int32), [1], "must be float or fixed-point, but is INT_32"),
    ):
        with pytest.raises(OpError, match=said):
            run_op("Moments", x, axes=axes, keep_dims=False)


def running(values: list[Any], exclusive: bool, reverse: bool) -> list[Any]:
    """Return the running sums of a row."""
    ordered = values[::-1] if reverse else values
    sums = list(itertools.accumulate(ordered))
    if exclusive:
        sums = [0, *sums[:-1]][: len(values)]
    return sums[::-1] if reverse else sums


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cumulative_sum(
    run_op: Run, exclusive: bool, reverse: bool, dtype: type[Any], axis: int
) -> None:
    x = np.random.default_rng(3).integers(0, 9, (2, 1, 5)).astype(dtype)
    y = run_op("CumulativeSum", x, axis=axis, exclusive=exclusive, reverse=reverse)
    assert y.dtype == dtype
    rows = zip(np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]), strict=True)
    found = np.moveaxis(y, axis, -1).reshape(-1, x.shape[axis])
    want = [running(row.tolist(), exclusive, reverse) for (row,) in rows]
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_sum_of_slices(
    run_op: Run, exclusive: bool, reverse: bool, dtype: type[Any]
) -> None:
    """Slices that are added as wholes have the bits of sums of single elements."""
    x = np.random.default_rng(3).normal(0, 50, (8, 9, 64)).astype(dtype)
    params = {"exclusive": exclusive, "reverse": reverse}
    whole = run_op("CumulativeSum", x, axis=1, **params)
    rows = [run_op("CumulativeSum", x[..., i], axis=1, **params) for i in range(64)]
    np.testing.assert_array_equal(whole, np.stack(rows, axis=-1))
    assert run_op("CumulativeSum", x[:, :1], axis=1, **params).shape == (8, 1, 64)


def test_cumulative_sum_of_nothing(run_op: Run) -> None:
    for shape in ((0,), (2, 0), (0, 3)):
        x = np.zeros(shape, np.float32)
        assert run_op("CumulativeSum", x, axis=0, exclusive=True).shape == shape
    with pytest.raises(OpError, match="axis 0 is not an axis of a tensor of rank 0"):
        run_op("CumulativeSum", np.zeros((), np.float32), axis=0)


def test_refusals(run_op: Run) -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(OpError, match=r"\(1, 1\) contain an axis twice"):
        run_op("ReduceSum", x, axes=[1, 1])
    with pytest.raises(OpError, match="axes: 2 is not an axis"):
        run_op("ReduceSum", x, axes=[2])
