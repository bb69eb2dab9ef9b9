"""Activations against their formulas in float64 by `math`, one number after the other."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail_opset._erf import erf
from dovetail_opset.ops.activation import Neuron

Run = Callable[..., Any]
POINTS = np.concatenate([np.linspace(-12, 12, 97), [-90, 90, -0.0, 1e-9, -1e-30]]).astype(
    np.float32
)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gelu(x: float) -> float:
    return x / 2 * math.erfc(-x / math.sqrt(2))


def elu(alpha: float) -> Callable[[float], float]:
    return lambda x: x if x > 0 else alpha * math.expm1(x)


CASES: list[tuple[str, dict[str, Any], Callable[[float], float]]] = [
    ("Relu", {}, lambda x: max(x, 0.0)),
    ("ReluMinMax", {"min_value": -1.5, "max_value": 2}, lambda x: min(max(x, -1.5), 2)),
    ("Relu1", {}, lambda x: min(max(x, -1), 1)),
    ("Relu6", {}, lambda x: min(max(x, 0), 6)),
    ("ElementWiseSoftplus", {}, lambda x: math.log1p(math.exp(x))),
    ("ElementWiseSoftplus", {"beta": 0.5}, lambda x: 2 * math.log1p(math.exp(x / 2))),
    (
        "ElementWiseSoftplus",
        {"beta": 2.0, "threshold": 3.0},
        lambda x: x if 2 * x > 3 else math.log1p(math.exp(2 * x)) / 2,
    ),
    ("Sigmoid", {}, sigmoid),
    ("Tanh", {}, math.tanh),
    ("Gelu", {}, gelu),
    ("HardSwish", {}, lambda x: x * min(max(x + 3, 0), 6) / 6),
    ("Elu", {}, elu(1)),
    ("Elu", {"alpha": 0.25}, elu(0.25)),
]
N = Neuron
NEURONS: list[tuple[Neuron, dict[str, Any], Callable[[float], float]]] = [
    (N.ELU, {}, elu(1)),
    (N.ELU, {"alpha": 2.0}, elu(2)),
    (N.GELU, {}, gelu),
    (N.HARD_SIGMOID, {}, lambda x: min(max(0.2 * x + 0.5, 0), 1)),
    (N.HARD_SIGMOID, {"alpha": 1 / 6, "beta": 0.25}, lambda x: min(max(x / 6 + 0.25, 0), 1)),
    (N.HARD_SWISH, {}, lambda x: x * min(max(x + 3, 0), 6) / 6),
    (N.RELU, {}, lambda x: max(x, 0.0)),
    (N.RELU_MIN_MAX, {"min_value": 0.0, "max_value": 6.0}, lambda x: min(max(x, 0), 6)),
    (N.SIGMOID, {}, sigmoid),
    (N.SOFTPLUS, {}, lambda x: math.log1p(math.exp(x)) if x < 30 else x),
    (
        N.SOFTPLUS,
        {"beta": 2.0, "threshold": 3.0},
        lambda x: x if 2 * x > 3 else math.log1p(math.exp(2 * x)) / 2,
    ),
    (N.TANH, {}, math.tanh),
]


def check(y: Any, function: Callable[[float], float]) -> None:
    assert y.dtype == np.float32
    want = [function(float(x)) for x in POINTS]
    # a few roundings of float32; absolute where 1 + erf or 1 - tanh cancels
    np.testing.assert_allclose(y, want, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "params", "function"), CASES)
def test_activation(
    run_op: Run, name: str, params: dict[str, Any], function: Callable[[float], float]
) -> None:
    check(run_op(name, POINTS, **params), function)


@pytest.mark.parametrize(("operation", "params", "function"), NEURONS)
def test_neuron(
    run_op: Run, operation: Neuron, params: dict[str, Any], function: Callable[[float], float]
) -> None:
    check(run_op("ElementWiseNeuron", POINTS, operation=operation, **params), function)


def test_every_neuron_has_a_case() -> None:
    assert {case[0] for case in NEURONS} == set(Neuron)


@pytest.mark.parametrize(
    "name",
    [
        "Relu",
        "Relu1",
        "Relu6",
        "Sigmoid",
        "Gelu",
        "HardSwish",
        "Elu",
        "Tanh",
        "ElementWiseSoftplus",
    ],
)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 1, 3)])
def test_shape_and_type_stay(run_op: Run, name: str, shape: tuple[int, ...]) -> None:
    y = run_op(name, np.full(shape, 0.5, np.float32))
    assert (y.shape, y.dtype) == (shape, np.float32)


def test_erf_is_accurate_to_float32() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), np.logspace(-30, 0, 400), [np.inf, -np.inf]])
    want = np.array([math.erf(v) for v in x])
    # the approximation itself, in float64: far below half a step of a float32 (3e-8)
    np.testing.assert_allclose(erf(x), want, rtol=1e-14, atol=0)
    narrow = x.astype(np.float32)
    exact = np.array([math.erf(float(v)) for v in narrow])
    assert erf(narrow).dtype == np.float32
    np.testing.assert_array_equal(erf(narrow), exact.astype(np.float32))
    assert np.isnan(erf(np.array([np.nan], np.float32)))[0]


def test_prelu(run_op: Run, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    for shape in ((1,), (4,), (3, 1), (1, 4), (2, 3, 4), (2, 1, 1)):
        slope = rng.standard_normal(shape).astype(np.float32)
        y = run_op("Prelu", x, slope)
        for place in np.ndindex(*x.shape):
            own = [0 if n == 1 else i for i, n in zip(place[-len(shape) :], shape, strict=True)]
            value = float(x[place])
            want = value if value >= 0 else value * float(slope[tuple(own)])
            assert y[place] == np.float32(want)


def test_prelu_of_integers_infinities_and_nothing(run_op: Run) -> None:
    y = run_op("Prelu", np.array([-3, 0, 4], np.int32), np.array([-2], np.int32))
    np.testing.assert_array_equal(y, [6, 0, 4])
    far = np.array([np.inf, -np.inf, np.nan], np.float32)
    # an infinite x above 0 is not multiplied by the slope 0
    np.testing.assert_array_equal(
        run_op("Prelu", far, np.zeros(1, np.float32)), [np.inf, np.nan, np.nan]
    )
    empty = np.zeros((2, 0), np.float32)
    assert run_op("Prelu", empty, np.ones(1, np.float32)).shape == (2, 0)


@pytest.mark.parametrize(("x", "slope"), [((), (1,)), ((3,), ()), ((3,), (1, 3)), ((1, 3), (2, 3))])
def test_prelu_slopes_that_do_not_fit(
    run_op: Run, x: tuple[int, ...], slope: tuple[int, ...]
) -> None:
    with pytest.raises(OpError, match=r"the slopes in\[1\]"):
        run_op("Prelu", np.zeros(x, np.float32), np.zeros(slope, np.float32))
    with pytest.raises(OpError, match="different types: FLOAT_32 and FLOAT_16"):
        run_op("Prelu", np.zeros(3, np.float32), np.zeros(3, np.float16))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_clips_of_integers(run_op: Run, dtype: type[np.integer[Any]]) -> None:
    x = np.arange(max(int(np.iinfo(dtype).min), -50), 50, dtype=dtype)
    inside = {"min_value": -2.5, "max_value": 3.5}
    beyond = {"min_value": -1e30, "max_value": np.inf}
    for name, params, low, high in (
        ("Relu1", {}, -1, 1),
        ("Relu6", {}, 0, 6),
        ("ReluMinMax", inside, -2, 3),
        ("ReluMinMax", beyond, -1e30, 1e30),
    ):
        want = [int(min(max(v, low), high)) for v in x.tolist()]
        y = run_op(name, x, **params)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize(
    ("name", "shape", "params", "said"),
    [
        ("ReluMinMax", (1,), {"min_value": 2.0, "max_value": 1.0}, "min_value 2.0 is greater"),
        ("ElementWiseSoftplus", (1,), {"beta": 0.0}, "beta must not be 0"),
        ("ElementWiseNeuron", (1,), {"operation": N.RELU_MIN_MAX}, "needs the params min_value"),
        ("ElementWiseNeuron", (1,), {"operation": 9}, "TANH=8"),
    ],
)
def test_refusals(
    run_op: Run, name: str, shape: tuple[int, ...], params: dict[str, Any], said: str
) -> None:
    with pytest.raises(OpError) as caught:
        run_op(name, np.zeros(shape, np.float32), **params)
    assert said in str(caught.value)
