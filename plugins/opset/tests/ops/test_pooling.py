"""Pooling against its definition written out in loops, and its surprising facts."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array
from dovetail_opset.ops.pooling import Rounding

Run = Callable[..., Any]


def windows(x: Array, g: dict[str, Any]) -> dict[tuple[int, ...], tuple[int, Array]]:
    """Return each window's number of elements in the padding, and those in the image: (n, m, c)."""
    rounding = np.ceil if g.get("rounding_mode") else np.floor
    rows: list[list[tuple[int, list[int]]]] = []  # for each axis and window
    for (before, after), extent, f, s in zip(
        g["pad_amount"], x.shape[1:-1], g["filter_size"], g["stride"], strict=True
    ):
        count = int(rounding((before + extent + after - f) / s)) + 1
        reached = [[i * s - before + t for t in range(f)] for i in range(count)]
        there = [[e for e in window if e < extent + after] for window in reached]
        rows.append([(len(w), [e for e in w if 0 <= e < extent]) for w in there])
    found = {}
    for place in np.ndindex(*map(len, rows)):
        parts = [rows[axis][i] for axis, i in enumerate(place)]
        inside = [part[1] for part in parts]
        total, real = (math.prod(n) for n in ([p[0] for p in parts], map(len, inside)))
        chosen = x[np.ix_(range(len(x)), *inside, range(x.shape[-1]))]
        found[place] = (total - real, chosen.reshape(len(x), real, x.shape[-1]))
    return found


def geometries(axes: int) -> st.SearchStrategy[dict[str, Any]]:
    each = st.tuples(*[st.integers(1, 3)] * axes)
    pads = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return st.fixed_dictionaries(
        {"filter_size": each, "stride": each, "pad_amount": st.tuples(*[pads] * axes)}
    )


def images(axes: int) -> st.SearchStrategy[tuple[int, ...]]:
    extents = [st.integers(3, 6 if axes == 2 else 4)] * axes
    return st.tuples(st.integers(0, 2), *extents, st.integers(0, 2))


roundings = st.sampled_from(Rounding)
both = pytest.mark.parametrize("axes", [2, 3])


@both
@settings(max_examples=50)  # the loops take their time
@given(data=st.data(), rounding=roundings, seed=st.integers(0, 99))
def test_pool_max(
    run_op: Run, axes: int, data: st.DataObject, rounding: Rounding, seed: int
) -> None:
    shape, g = data.draw(images(axes)), data.draw(geometries(axes)) | {"rounding_mode": rounding}
    x = np.random.default_rng(seed).standard_normal(shape, np.float32) - 1
    y = run_op(f"PoolMax{axes}d", x, **g)
    found = windows(x, g)
    assert math.prod(y.shape) == len(found) * shape[0] * shape[-1]
    for place, (padded, inside) in found.items():
        # the padding holds 0; nothing at all gives 0 too
        zero = padded > 0 or inside.shape[1] == 0
        want = inside.max(axis=1, initial=0 if zero else -np.inf)
        np.testing.assert_array_equal(y[(slice(None), *place)], want)


@both
@settings(max_examples=50)
@given(data=st.data(), rounding=roundings, count_pads=st.booleans(), seed=st.integers(0, 99))
def test_pool_avg(
    run_op: Run, axes: int, data: st.DataObject, rounding: Rounding, count_pads: bool, seed: int
) -> None:
    shape, g = data.draw(images(axes)), data.draw(geometries(axes)) | {"rounding_mode": rounding}
    x = np.random.default_rng(seed).standard_normal(shape, np.float32)
    y = run_op(f"PoolAvg{axes}d", x, count_pad_for_edges=count_pads, **g)
    found = windows(x, g)
    assert y.dtype == np.float32
    assert math.prod(y.shape) == len(found) * shape[0] * shape[-1]
    for place, (_, inside) in found.items():
        divisor = math.prod(g["filter_size"]) if count_pads else max(inside.shape[1], 1)
        want = inside.astype(np.float64).sum(axis=1) / divisor
        # at most 27 float32 numbers near 1 are added
        np.testing.assert_allclose(y[(slice(None), *place)], want, rtol=1e-5, atol=2e-6)


@settings(max_examples=50)
@given(shape=images(2), g=geometries(2), seed=st.integers(0, 99))
def test_l2_pool(run_op: Run, shape: tuple[int, ...], g: dict[str, Any], seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(shape, np.float32)
    y = run_op("L2Pool2d", x, **g)
    found = windows(x, g)
    assert math.prod(y.shape) == len(found) * shape[0] * shape[-1]
    for place, (_, inside) in found.items():
        want = np.linalg.norm(inside.astype(np.float64), axis=1)
        np.testing.assert_allclose(y[(slice(None), *place)], want, rtol=1e-5, atol=1e-6)


def test_l2_pool_takes_the_sum_not_the_mean(run_op: Run) -> None:
    x = np.array([3, 4], np.float32).reshape(1, 1, 2, 1)
    params = {"filter_size": (1, 2), "stride": (1, 1), "pad_amount": [(0, 0), (0, 0)]}
    assert run_op("L2Pool2d", x, **params).item() == 5
    # 100 squared is no int8
    assert run_op("L2Pool2d", np.full((1, 1, 2, 1), 60, np.int8), **params).item() == 84


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


def test_pool_max_of_truths(run_op: Run) -> None:
    x = np.array([[0, 0, 1], [0, 0, 0]], np.bool_).reshape(1, 2, 3, 1)
    params = {"filter_size": (2, 2), "stride": (1, 1), "pad_amount": [(0, 0), (0, 0)]}
    np.testing.assert_array_equal(run_op("PoolMax2d", x, **params).ravel(), [False, True])


@pytest.mark.parametrize("op_type", ["PoolMax3d", "PoolAvg3d"])
def test_three_axes_refuse_an_image(run_op: Run, op_type: str) -> None:
    params = {"filter_size": (1, 1, 1), "stride": (1, 1, 1), "pad_amount": [(0, 0)] * 3}
    with pytest.raises(OpError, match=r"in\[0\] must have rank 5, but its shape is \(1, 2, 2, 1\)"):
        run_op(op_type, np.zeros((1, 2, 2, 1), np.float32), **params)
