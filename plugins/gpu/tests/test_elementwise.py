"""Elementwise functions of real numbers on a device, against `cpu`."""

import functools
import math

import numpy as np
import pytest
import small_nets
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples

from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail_gpu import stages
from dovetail_gpu.functions import division_lines
from dovetail_opset.build import add

# Zeros of both signs, infinities, NaN, limits of exponentials, and halves, which are rounded.
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -3.0, 6.5, 1e-20, -90.0, 90.0]
UNARY = (
    *("Abs", "Asin", "Atan", "Ceil", "Cos", "Exp", "Floor", "Log", "Neg", "Not", "Round"),
    *("Rsqrt", "Sign", "Sin", "SquareRoot"),
)
ACTIVATIONS = ("Elu", "Gelu", "HardSwish", "Logit", "Relu", "Relu1", "Relu6", "Sigmoid", "Tanh")
BINARY = (
    *("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "SquaredDifference"),
    *("FloorDiv", "Fmod", "Power"),
)
NEURONS = [
    {"operation": 0, "alpha": 0.3},
    {"operation": 2},
    {"operation": 2, "alpha": 0.5, "beta": 0.25},
    {"operation": 5, "min_value": -1.5, "max_value": 0.25},
    {"operation": 7},
    {"operation": 7, "beta": 2.0, "threshold": 3.0},
]
SHAPES = st.lists(st.sampled_from((1, 2, 3, 8, 17)), max_size=5).map(tuple)


real = functools.partial(small_nets.real, scale=2.0)


def special():
    numbers = np.array(SPECIAL, np.float32)
    return np.concatenate([numbers, real(16 * 9 + 3)])


@pytest.mark.parametrize("name", [*(f"ElementWise{name}" for name in UNARY), *ACTIVATIONS])
def test_functions_of_one_tensor(check_op, name):
    with np.errstate(all="ignore"):
        check_op(name, special())


@pytest.mark.parametrize("name", ["Gelu", "ElementWiseRound"])
def test_half_precision(check_op, name):
    check_op(name, special()[5:], is_half=True)
    check_op(name, real(), is_half=True)


@pytest.mark.parametrize("params", NEURONS)
def test_neurons(check_op, params):
    with np.errstate(all="ignore"):
        check_op("ElementWiseNeuron", special(), **params)


def test_gelu_is_accurate_where_it_is_small(run):
    x = np.linspace(-6, 0, 64, dtype=np.float32)
    (found,) = run(*one_op("Gelu", x)).values()
    erfc = np.vectorize(math.erfc)
    wanted = x / 2 * erfc(-x / np.sqrt(2.0))
    np.testing.assert_allclose(found, wanted, rtol=2e-5)


@examples(80)
@given(st.data(), SHAPES, st.booleans())
def test_any_shapes_broadcast(check_op, data, shape, is_half):
    keeps = st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))
    sides = []
    for seed in (1, 2):
        kept = data.draw(keeps)
        short = tuple(n if keep else 1 for n, keep in zip(shape, kept, strict=True))
        sides.append(real(*short[data.draw(st.integers(0, len(shape))) :], seed=seed))
    check_op("ElementWiseSubtract", *sides, is_half=is_half)


@pytest.mark.parametrize("name", BINARY)
def test_special_numbers_in_pairs(check_op, name):
    first, second = np.meshgrid(np.array(SPECIAL, np.float32), np.array(SPECIAL, np.float32))
    with np.errstate(all="ignore"):
        check_op(f"ElementWise{name}", first, second)


def test_special_quotients_where_the_device_rounds_some_wrongly(check_op, monkeypatch):
    monkeypatch.setattr(stages, "quotient_lines", lambda: division_lines(is_exact=False))
    first, second = np.meshgrid(np.array(SPECIAL, np.float32), np.array(SPECIAL, np.float32))
    with np.errstate(all="ignore"):
        check_op("ElementWiseFloorDiv", first, second)


def test_exact_quotients_are_not_missed(check_op):
    b = np.arange(1, 400, dtype=np.float32)[:, None] / 7
    a = b * np.arange(1, 33, dtype=np.float32)
    check_op("ElementWiseFloorDiv", a.astype(np.float32), b, rtol=1e-9)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 8), (1, 1), (2, 3, 1, 4, 5, 8)])
def test_shapes_without_or_with_many_axes(check_op, shape):
    check_op("Tanh", real(*shape))
    check_op("ElementWiseMultiply", real(*shape), real(*shape[-1:], seed=2))


def one_op(op_type, x, **params):
    graph = Graph("one")
    given = graph.add_tensor(Tensor("x", DType.of(x.dtype), x.shape, TensorKind.APP_WRITE))
    add(graph, op_type, [given], name="y", **params).kind = TensorKind.APP_READ
    return graph, {"x": x}


def test_tanh_is_exact_near_zero_and_bounded(run):
    graph = Graph("net")
    sizes = np.concatenate([np.logspace(-8, 1, 4000), np.linspace(3, 12, 4000), [np.inf]])
    values = np.concatenate([sizes, -sizes, [0.0, np.nan]]).astype(np.float32)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, values.shape, TensorKind.APP_WRITE))
    add(graph, "Tanh", [x], name="y").kind = TensorKind.APP_READ
    found = run(graph, {"x": values})["y"]
    np.testing.assert_allclose(found, np.tanh(values.astype(np.float64)), 5e-7)
    assert np.nanmax(np.abs(found)) == 1
