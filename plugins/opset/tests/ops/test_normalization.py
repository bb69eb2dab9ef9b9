"""Normalizations against statistics of Python floats, one element after the other."""

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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


def test_layer_norm_over_no_elements(run_op: Run) -> None:
    assert run_op("LayerNorm", np.zeros((2, 0), np.float32), axes=[1]).shape == (2, 0)


@pytest.mark.parametrize("axes", [(2,), (1, 2), (2, 1), (0,), ()])
def test_rms_norm(run_op: Run, rng: np.random.Generator, axes: tuple[int, ...]) -> None:
    x = rng.standard_normal((2, 3, 4), np.float32)
    extents = tuple(x.shape[a] for a in axes)
    gamma, beta = rng.standard_normal((2, *extents), np.float32)
    gamma, beta = gamma.reshape(extents), beta.reshape(extents)
    y = run_op("RmsNorm", x, gamma, beta, axes=axes, epsilon=0.01)
    for place in np.ndindex(*x.shape):
        over = tuple(slice(None) if a in axes else i for a, i in enumerate(place))
        own = tuple(place[a] for a in axes)
        mean = statistics.fmean(v * v for v in x[over].ravel().tolist())
        want = float(x[place]) / (mean + 0.01) ** 0.5 * float(gamma[own]) + float(beta[own])
        # float32 sums of at most 12 numbers, then four operations
        assert y[place] == pytest.approx(want, rel=1e-4, abs=1e-5)


def test_rms_norm_defaults(run_op: Run, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 6), np.float32)
    ones = np.ones(6, np.float32)
    plain = run_op("RmsNorm", x, axes=[1])
    np.testing.assert_array_equal(plain, run_op("RmsNorm", x, ones, axes=[1], epsilon=1e-6))
    np.testing.assert_array_equal(run_op("RmsNorm", x, None, ones, axes=[1]), plain + 1)
    assert run_op("RmsNorm", np.zeros((2, 0), np.float32), axes=[1]).shape == (2, 0)
    scalar = run_op("RmsNorm", np.array(-3, np.float32), axes=[])
    assert (scalar.shape, float(scalar)) == ((), pytest.approx(-1))


def region_of(x: Any, place: tuple[int, ...], region: str) -> list[float]:
    """Return the elements that the statistics of one element are taken over."""
    inner = [slice(None)] * (x.ndim - 2)
    match region:
        case "spatial":
            return list(x[(place[0], *inner, place[-1])].ravel().tolist())
        case "channel":
            return list(x[place[:-1]].ravel().tolist())
        case _:
            return list(x[place[0]].ravel().tolist())


REGIONS = {"spatial": 0, "channel": 1, "all": 2}


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("kind", ["mu sigma", "mean only", "rms"])
@pytest.mark.parametrize("shape", [(2, 3, 2, 4), (2, 5, 3), (2, 1, 2, 3, 2), (2, 4)])
def test_instance_norm(
    run_op: Run, rng: np.random.Generator, region: str, kind: str, shape: tuple[int, ...]
) -> None:
    x = (rng.standard_normal(shape) + 1).astype(np.float32)
    gamma, beta = rng.standard_normal((2, shape[-1]), np.float32)
    params = {"mean only": {"normalize_variance": False}, "rms": {"mode": 1}}.get(kind, {})
    y = run_op("InstanceNorm", x, gamma, beta, epsilon=0.01, region=REGIONS[region], **params)
    for place in np.ndindex(*shape):
        values, value = region_of(x, place, region), float(x[place])
        if kind == "rms":  # the sum of squares, not their mean
            value /= (sum(v * v for v in values) + 0.01) ** 0.5
        else:
            value -= statistics.fmean(values)
            if kind == "mu sigma":
                value /= (statistics.pvariance(values) + 0.01) ** 0.5
        want = value * float(gamma[place[-1]]) + float(beta[place[-1]])
        # float32 sums of at most 24 numbers, then four operations
        assert y[place] == pytest.approx(want, rel=1e-4, abs=1e-5)


def test_instance_norm_defaults(run_op: Run, rng: np.random.Generator) -> None:
    x, ones = rng.standard_normal((2, 3, 4, 5), np.float32), np.ones(5, np.float32)
    y = run_op("InstanceNorm", x, ones)
    stated = {"epsilon": 1e-12, "mode": 0, "normalize_variance": True, "region": 0}
    np.testing.assert_array_equal(y, run_op("InstanceNorm", x, ones, ones * 0, **stated))
    assert run_op("InstanceNorm", np.zeros((2, 0, 5), np.float32), ones).shape == (2, 0, 5)
    assert run_op("InstanceNorm", x.astype(np.float16), ones.astype(np.float16)).dtype == np.float16


@pytest.mark.parametrize("group", [1, 2, 3, 6])
@pytest.mark.parametrize("spatial", [(), (4,), (2, 3)])
def test_group_norm(
    run_op: Run, rng: np.random.Generator, group: int, spatial: tuple[int, ...]
) -> None:
    x = rng.standard_normal((2, *spatial, 6), np.float32)
    gamma, beta = rng.standard_normal((2, 6), np.float32)
    y = run_op("GroupNorm", x, gamma, beta, group=group, epsilon=0.01)
    for place in np.ndindex(*x.shape):
        item, channel = place[0], place[-1]
        size = 6 // group
        first = channel // size * size
        values = x[item, ..., first : first + size].ravel().tolist()
        spread = (statistics.pvariance(values) + 0.01) ** 0.5
        normal = (float(x[place]) - statistics.fmean(values)) / spread
        want = normal * float(gamma[channel]) + float(beta[channel])
        # float32 sums of at most 36 numbers, then four operations
        assert y[place] == pytest.approx(want, rel=1e-4, abs=1e-5)
    plain = run_op("GroupNorm", x, group=group, epsilon=0.01)
    ones = np.ones(6, np.float32)
    np.testing.assert_array_equal(
        plain, run_op("GroupNorm", x, ones, ones * 0, group=group, epsilon=0.01)
    )


def test_group_norm_of_nothing(run_op: Run) -> None:
    x = np.zeros((0, 3, 4), np.float32)
    assert run_op("GroupNorm", x, group=2, epsilon=0.0).shape == x.shape


@pytest.mark.parametrize(
    ("params", "axes"),
    [({}, (0,)), ({"axis": 1}, (1,)), ({"axes": [2, 0]}, (0, 2)), ({"axis": 1, "axes": [2]}, (2,))],
)
def test_l2_norm(
    run_op: Run, rng: np.random.Generator, params: dict[str, Any], axes: tuple[int, ...]
) -> None:
    x = rng.standard_normal((2, 3, 4), np.float32)
    y = run_op("L2Norm", x, **params)
    for place in np.ndindex(*x.shape):
        over = tuple(slice(None) if a in axes else i for a, i in enumerate(place))
        norm = math.hypot(*x[over].ravel().tolist())
        assert y[place] == pytest.approx(float(x[place]) / norm, rel=1e-6)  # three roundings


def test_l2_norm_divides_by_epsilon_where_that_is_greater(run_op: Run) -> None:
    x = np.array([[3, 4], [0.3, 0.4], [0, 0]], np.float32)
    y = run_op("L2Norm", x, axis=1, epsilon=2.0)
    np.testing.assert_allclose(y, [[0.6, 0.8], [0.15, 0.2], [0, 0]], rtol=1e-6)  # two roundings
    np.testing.assert_array_equal(run_op("L2Norm", x[2:], axis=1), [[0, 0]])
    assert run_op("L2Norm", np.zeros((0, 2), np.float32)).shape == (0, 2)


@pytest.mark.parametrize(
    ("name", "shape", "factors", "params", "said"),
    [
        ("RmsNorm", (2, 3), [(2,)], {"axes": [1]}, "gamma in[1] must have shape (3,)"),
        ("RmsNorm", (2, 3), [], {"axes": [2]}, "axes: 2 is not an axis"),
        ("InstanceNorm", (4,), [(4,)], {}, "must have a batch and a channel dimension"),
        ("InstanceNorm", (2, 3, 4), [(3,)], {}, "gamma in[1] must have shape (4,)"),
        ("InstanceNorm", (2, 3, 4), [(4,), (2,)], {}, "beta in[2] must have shape (4,)"),
        ("InstanceNorm", (2, 3, 4), [(4,)], {"region": 3}, "ACROSS_ALL=2"),
        ("GroupNorm", (2, 3, 4), [], {"group": 3, "epsilon": 0.0}, "4 channels"),
        ("GroupNorm", (2, 3, 4), [], {"group": 0, "epsilon": 0.0}, "do not divide into 0 groups"),
        ("GroupNorm", (4,), [], {"group": 2, "epsilon": 0.0}, "a batch and a channel dimension"),
        ("L2Norm", (2, 3), [], {"axis": 2}, "2 is not an axis of a tensor of rank 2"),
        ("L2Norm", (2, 3), [], {"axes": [1, 1]}, "contain an axis twice"),
    ],
)
def test_norms_that_do_not_fit(
    run_op: Run,
    name: str,
    shape: tuple[int, ...],
    factors: list[tuple[int, ...]],
    params: dict[str, Any],
    said: str,
) -> None:
    arrays = [np.ones(s, np.float32) for s in (shape, *factors)]
    with pytest.raises(OpError) as caught:
        run_op(name, *arrays, **params)
    assert said in str(caught.value)


def test_norms_of_types_that_do_not_fit(run_op: Run) -> None:
    x, whole = np.ones((2, 3), np.float32), np.ones((2, 3), np.int32)
    with pytest.raises(OpError, match="different types: FLOAT_32 and FLOAT_16"):
        run_op("InstanceNorm", x, np.ones(3, np.float16))
    for name, params in (("L2Norm", {}), ("RmsNorm", {"axes": [1]})):
        with pytest.raises(OpError, match=r"in\[0\] must be float or fixed-point, but is INT_32"):
            run_op(name, whole, **params)


def test_refusals(run_op: Run) -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(OpError, match=r"gamma in\[1\] must have shape \(3,\)"):
        run_op("LayerNorm", x, np.zeros(2, np.float32), axes=[1])
    with pytest.raises(OpError, match=r"weights in\[1\] must have shape \(3,\)"):
        run_op("Batchnorm", x, np.zeros(2, np.float32))
