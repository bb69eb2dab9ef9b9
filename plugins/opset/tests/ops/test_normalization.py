"""Normalizations and reductions against statistics of Python floats."""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import OpError

Run = Callable[..., Any]


def test_batchnorm(run_op: Run, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 4), np.float32)
    w, b = rng.standard_normal(4, np.float32), rng.standard_normal(4, np.float32)
    y = run_op("Batchnorm", x, w, b)
    for place in np.ndindex(*x.shape):
        c = place[-1]
        # two float32 roundings
        assert y[place] == pytest.approx(float(x[place]) * float(w[c]) + float(b[c]), abs=1e-6)
    zeros = np.zeros(4, np.float32)
    np.testing.assert_array_equal(run_op("Batchnorm", x, w), run_op("Batchnorm", x, w, zeros))


@pytest.mark.parametrize("axes", [(2,), (1, 2), (2, 1), (0,), (2, 0)])
def test_layer_norm(run_op: Run, rng: np.random.Generator, axes: tuple[int, ...]) -> None:
    x = rng.standard_normal((2, 3, 4), np.float32)
    extents = tuple(x.shape[a] for a in axes)
    gamma, beta = rng.standard_normal((2, *extents), np.float32)
    y = run_op("LayerNorm", x, gamma, beta, axes=axes, epsilon=0.01)
    for place in np.ndindex(*x.shape):
        over = tuple(slice(None) if a in axes else i for a, i in enumerate(place))
        values = x[over].ravel().tolist()
        own = tuple(place[a] for a in axes)  # gamma's dimensions follow the order of axes
        spread = (statistics.pvariance(values) + 0.01) ** 0.5
        want = (float(x[place]) - statistics.fmean(values)) / spread * gamma[own] + beta[own]
        # float32 sums of at most 12 numbers, then four operations
        assert y[place] == pytest.approx(want, rel=1e-4, abs=1e-5)


def test_layer_norm_defaults(run_op: Run, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 6), np.float32)
    ones, zeros = np.ones(6, np.float32), np.zeros(6, np.float32)
    plain = run_op("LayerNorm", x, axes=[1])
    np.testing.assert_array_equal(
        plain, run_op("LayerNorm", x, ones, zeros, axes=[1], epsilon=1e-3)
    )
    only_beta = run_op("LayerNorm", x, None, ones, axes=[1])
    np.testing.assert_array_equal(only_beta, plain + 1)


REDUCTIONS: dict[str, Callable[[list[float]], float]] = {
    "ReduceMean": statistics.fmean,
    "ReduceSum": lambda values: sum(values),
    "ReduceMax": max,
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


def test_refusals(run_op: Run) -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(OpError, match=r"gamma in\[1\] must have shape \(3,\)"):
        run_op("LayerNorm", x, np.zeros(2, np.float32), axes=[1])
    with pytest.raises(OpError, match=r"weights in\[1\] must have shape \(3,\)"):
        run_op("Batchnorm", x, np.zeros(2, np.float32))
    with pytest.raises(OpError, match=r"\(1, 1\) name an axis twice"):
        run_op("ReduceSum", x, axes=[1, 1])
    with pytest.raises(OpError, match="axes: 2 is not an axis"):
        run_op("ReduceSum", x, axes=[2])
