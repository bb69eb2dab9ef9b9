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


@pytest.mark.parametrize("name", ["Relu", "Sigmoid", "Gelu", "HardSwish", "Elu", "Tanh"])
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


def test_softmax(run_op: Run, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((2, 3, 5)) * 4).astype(np.float32)
    for axis, beta in ((0, 1.0), (1, 0.5), (2, 2.0)):
        y = run_op("Softmax", x, axis=axis, beta=beta)
        powers = np.exp(beta * x.astype(np.float64))
        # float32 exp of numbers up to 25 and a sum of 5
        np.testing.assert_allclose(y, powers / powers.sum(axis, keepdims=True), rtol=2e-5)
    np.testing.assert_array_equal(run_op("Softmax", x), run_op("Softmax", x, axis=2))


def test_softmax_of_large_and_of_no_elements(run_op: Run) -> None:
    y = run_op("Softmax", np.array([[1e4, 1e4, -np.inf]], np.float32))
    np.testing.assert_array_equal(y, [[0.5, 0.5, 0]])
    assert run_op("Softmax", np.zeros((3, 0), np.float32)).shape == (3, 0)


@pytest.mark.parametrize(
    ("name", "shape", "params", "said"),
    [
        ("ReluMinMax", (1,), {"min_value": 2.0, "max_value": 1.0}, "min_value 2.0 is greater"),
        ("Softmax", (2, 3), {"axis": 2}, "axis 2 is not an axis of a tensor of rank 2"),
        ("Softmax", (), {}, "of rank 0"),
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
