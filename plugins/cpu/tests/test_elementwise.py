"""Elementwise functions and activations against their references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_numpy.kernels import _calls

shapes = st.lists(st.integers(1, 5), max_size=4).map(tuple)
SPECIAL = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-30, -1e-30, 80.0, -80.0, 120, -120])
# float32 has 24 bits: a few roundings are a few times 6e-8, relative
ROUNDINGS = 1e-6
INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64)


def numbers(seed, *shape, low=-8.0, high=8.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


EXACT = [
    ("Relu", {}),
    ("Relu1", {}),
    ("Relu6", {}),
    ("ReluMinMax", {"min_value": -1.0, "max_value": 6.0}),
    ("Tanh", {}),
    ("ElementWiseNeuron", {"operation": 4}),
    ("ElementWiseNeuron", {"operation": 5, "min_value": 0.0, "max_value": 6.0}),
    ("ElementWiseNeuron", {"operation": 8}),
    *[
        (f"ElementWise{name}", {})
        for name in (
            "Abs",
            "Asin",
            "Atan",
            "Ceil",
            "Cos",
            "Exp",
            "Floor",
            "Neg",
            "Round",
            "Sign",
            "Sin",
        )
    ],
]
ROUNDED = [
    ("Sigmoid", {}),
    ("HardSwish", {}),
    ("Elu", {"alpha": 0.7}),
    ("ElementWiseNeuron", {"operation": 0}),
    ("ElementWiseNeuron", {"operation": 0, "alpha": 2.0}),
    ("ElementWiseNeuron", {"operation": 3}),
    ("ElementWiseNeuron", {"operation": 6}),
]


@pytest.mark.parametrize(("op_type", "params"), EXACT)
def test_same_function_same_bits(check_op, op_type, params):
    for shape in ((), (1,), (3, 5), (2, 3, 4, 7)):
        check_op(op_type, numbers(1, *shape), **params)


@pytest.mark.parametrize(("op_type", "params"), EXACT + ROUNDED)
def test_infinities_and_nan(check_op, op_type, params):
    check_op(op_type, SPECIAL.astype(np.float32), rtol=ROUNDINGS, **params)


@pytest.mark.parametrize("size", [7, 8192, 8195, 2 * 8192])
def test_relu_in_rows_of_8192(check_op, run_graph, op_graph, size):
    x = np.resize(np.concatenate([SPECIAL.astype(np.float32), numbers(1, 60)]), size)
    check_op("Relu", x)
    (found,) = run_graph(*op_graph("Relu", [x])).outputs.values()
    assert not np.signbit(found[x <= 0]).any()


def test_hard_swish_far_out(run_graph, op_graph):
    graph, feeds = op_graph("HardSwish", [np.array([3e38, -3e38], np.float32)])
    # x * 6 / 6, as the reference computes it, would overflow
    np.testing.assert_array_equal(run_graph(graph, feeds).outputs["op"], np.float32([3e38, 0]))


@pytest.mark.parametrize(("op_type", "params"), ROUNDED)
@settings(max_examples=15)
@given(shapes, st.integers(0, 99))
def test_other_order_of_roundings(check_op, op_type, params, shape, seed):
    check_op(op_type, numbers(seed, *shape), rtol=ROUNDINGS, atol=1e-7, **params)


@pytest.mark.parametrize(("alpha", "beta"), [(None, None), (0.3, None), (None, 0.25), (0.1, 0.6)])
def test_hard_sigmoid(check_op, alpha, beta):
    params = {"operation": 2, "alpha": alpha, "beta": beta}
    check_op("ElementWiseNeuron", numbers(1, 7, 9), rtol=ROUNDINGS, atol=1e-7, **params)


@pytest.mark.parametrize("params", [{}, {"operation": 1}])
def test_gelu(check_op, params):
    x = np.concatenate([numbers(1, 5000), SPECIAL[2:]]).astype(np.float32)
    op_type = "ElementWiseNeuron" if params else "Gelu"
    # the formula for erf is off by 1.5e-7, times at most |x| / 2 where that is not rounded away
    check_op(op_type, x, rtol=1e-6, atol=1e-6, **params)


def test_gelu_vanishes_far_below_zero(run_graph, op_graph):
    graph, feeds = op_graph("Gelu", [np.array([np.inf, -np.inf, -1e30, -40.0, -6.0], np.float32)])
    out = run_graph(graph, feeds).outputs["op"]
    assert out[0] == np.inf
    np.testing.assert_array_equal(out[1:4], 0)  # the reference returns NaN for the first
    # -6 * Phi(-6) = -5.92e-9: the formula is exact to a few digits there, 1 + erf would be 0
    assert -1.2e-8 < out[4] < -3e-9


@pytest.mark.parametrize(
    ("op_type", "params"),
    [
        ("ElementWiseSoftplus", {}),
        ("ElementWiseSoftplus", {"threshold": 20.0}),
        ("ElementWiseNeuron", {"operation": 7}),
    ],
)
def test_softplus(check_op, op_type, params):
    x = np.concatenate([numbers(1, 5000), np.linspace(-87, 87, 999), SPECIAL]).astype(np.float32)
    # against float64, the kernel is off by 3.3e-7 at most, the reference by 1.2e-7
    check_op(op_type, x, rtol=5e-7, **params)


@pytest.mark.parametrize("params", [{"beta": 2.0}, {"threshold": 1.0}])
def test_another_softplus_is_left_to_the_reference(check_op, params):
    check_op("ElementWiseSoftplus", numbers(1, 4, 3), kernel=False, **params)


@pytest.mark.parametrize("name", ["Log", "SquareRoot", "Rsqrt"])
def test_functions_of_positive_numbers(check_op, name):
    x = np.concatenate([numbers(1, 40, low=0.01), np.float32([0, -1, np.inf, np.nan])])
    check_op(f"ElementWise{name}", x, rtol=ROUNDINGS)


@pytest.mark.parametrize("name", ["Relu", "Gelu", "HardSwish", "ElementWiseRsqrt"])
def test_blocks(check_op, monkeypatch, name):
    from dovetail_numpy.kernels import _flat

    monkeypatch.setattr(_calls, "MOST_BLOCKS", 7)
    monkeypatch.setattr(_flat, "block_size", lambda total: _calls.block_size(total, 4))
    check_op(name, numbers(1, 3, 11, low=0.5), rtol=ROUNDINGS, atol=1e-6)


@pytest.mark.parametrize("number", range(16))
def test_functions_by_number(check_op, number):
    x = np.concatenate([numbers(1, 40, low=0.01), SPECIAL.astype(np.float32)])
    check_op("ElementWiseUnary", x, kernel=number != 9, rtol=ROUNDINGS, operation=number)
    check_op("ElementWiseUnary", x.astype(np.float64), kernel=number != 9, operation=number)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_functions_of_integers(check_op, dtype):
    x = np.array([[-128, -7, 0], [1, 5, 127]]).astype(dtype)
    for name in ("Abs", "Neg", "Sign"):
        check_op(f"ElementWise{name}", x)
    for name in ("Exp", "SquareRoot", "Round"):
        check_op(f"ElementWise{name}", np.abs(x) % 5, kernel=False)
    check_op("ElementWiseUnary", x, operation=8)
    check_op("ElementWiseUnary", x, kernel=False, operation=10)


def test_not(check_op):
    x = np.array([[True], [False]])
    for shape in ((2, 3), (2, 1), (0, 2)):
        truths = np.array(np.broadcast_to(x[: shape[0]], shape))
        check_op("ElementWiseNot", truths, kernel=0 not in shape)
        check_op("ElementWiseUnary", truths, kernel=0 not in shape, operation=9)
    check_op("ElementWiseNot", np.array(True))
    check_op("ElementWiseNot", np.array([0, 2], np.int32), kernel=False)


BINARY = (
    "Add",
    "Subtract",
    "Multiply",
    "Divide",
    "FloorDiv",
    "Fmod",
    "Maximum",
    "Minimum",
    "SquaredDifference",
)
OF_INTEGERS = (*(name for name in BINARY if name != "Divide"), "Mod")
# The operations of ElementWiseBinary with numeric results, and those with a kernel for integers.
BY_NUMBER = {0: True, 2: False, 4: True, 5: True, 10: True, 11: True, 12: True, 13: True}
BY_NUMBER |= {16: False, 17: True, 18: True}


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), max_size=4),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_two_tensors_broadcast(check_op, name, axes, cut, seed):
    left = tuple(1 if side == 0 else n for n, side in axes)
    right = tuple(1 if side == 1 else n for n, side in axes)[cut:]
    check_op(f"ElementWise{name}", numbers(seed, *left), numbers(seed + 1, *right))
    check_op(f"ElementWise{name}", numbers(seed, *right), numbers(seed + 1, *left), static=(1,))


@pytest.mark.parametrize("name", ["Maximum", "Minimum"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("size", [8191, 8192, 8195, 2 * 8192])
def test_a_tensor_and_a_number(check_op, name, dtype, size):
    x = np.resize(np.arange(100), size).astype(dtype)
    if dtype is np.float32:
        x[::7] = np.nan
    for number in (dtype(41), np.full((1, 1), 41, dtype)):
        given = np.asarray(number)
        check_op(f"ElementWise{name}", x.reshape(1, -1), given, static=(1,))
        check_op(f"ElementWise{name}", given, x.reshape(1, -1), static=(0,))


@pytest.mark.parametrize("name", OF_INTEGERS)
@settings(max_examples=20)
@given(
    st.sampled_from(INTEGERS),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), max_size=4),
    st.integers(0, 99),
)
def test_two_tensors_of_integers_broadcast(check_op, name, dtype, axes, seed):
    left = tuple(1 if side == 0 else n for n, side in axes)
    right = tuple(1 if side == 1 else n for n, side in axes)
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-9, 10, shape).astype(dtype) for shape in (left, right))
    check_op(f"ElementWise{name}", a, b)  # 0 is among the divisors


@pytest.mark.parametrize("number", BY_NUMBER)
def test_two_tensors_by_number(check_op, number):
    x, y = numbers(1, 4, 5, low=0.1), numbers(2, 5, low=-3, high=3)
    if number != 12:  # only integers have it
        check_op("ElementWiseBinary", x, y, operation=number)
        check_op("ElementWiseBinary", x.astype(np.float64), y.astype(np.float64), operation=number)
    a, b = (3 * x).astype(np.int32), y.astype(np.int32)
    check_op("ElementWiseBinary", a, b, kernel=BY_NUMBER[number], operation=number)


def test_what_is_left_to_the_reference(check_op):
    a, b = np.array([7, -7], np.int32), np.array([2, 0], np.int32)
    check_op("ElementWiseDivide", a, b, kernel=False)
    check_op("ElementWisePower", a, b, kernel=False)
    check_op("ElementWiseAdd", a[:0], b[:0], kernel=False)
    check_op("ElementWiseMaximum", a > 0, b > 0, kernel=False)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_powers_of_two(check_op, dtype):
    bits = np.dtype(dtype).itemsize * 8
    least = 0 if np.iinfo(dtype).min == 0 else -bits - 1
    exponents = np.arange(least, 2 * bits + 2).astype(dtype)
    check_op("ElementWisePower", np.array([2], dtype), exponents, static=(0,))
    check_op("ElementWisePower", np.array([3], dtype), exponents, static=(0,), kernel=False)


def test_power(check_op):
    x, y = numbers(1, 4, 5, low=0.1), numbers(2, 5, low=-3, high=3)
    check_op("ElementWisePower", x, y)


@pytest.mark.parametrize("exponent", [-3.0, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 7.0, 2.0**24])
def test_constant_exponents(check_op, run_graph, op_graph, exponent):
    bases = [*numbers(1, 40), -0.1, -3e38, 3e38, 1e-20, -1e-20, *SPECIAL]
    for dtype, rtol in ((np.float32, ROUNDINGS), (np.float64, 1e-15)):
        x, y = np.array(bases, dtype), np.array([exponent], dtype)
        check_op("ElementWisePower", x, y, static=(1,), rtol=rtol)
        with np.errstate(all="ignore"):
            wanted = np.power(x, y)
        found = run_graph(*op_graph("ElementWisePower", [x, y], static=(1,))).outputs["op"]
        is_zero = wanted == 0  # whose signs are not compared above
        np.testing.assert_array_equal(np.signbit(found)[is_zero], np.signbit(wanted)[is_zero])


def test_a_constant_exponent_that_broadcasts(check_op):
    x, y = numbers(1, 3).astype(np.float64), np.full((2, 1), 3.0)
    check_op("ElementWisePower", x, y, static=(1,), rtol=1e-15)


def test_a_tensor_with_itself(run_graph, evaluate, whole):
    """Both operands are one value: it must not be overwritten while it is still read."""
    from dovetail.ir import DType, Graph, Tensor, TensorKind
    from dovetail_opset.build import add

    graph = Graph("twice")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (3, 4), TensorKind.APP_WRITE))
    t = add(graph, "ElementWiseNeg", [x], name="t")
    u = add(graph, "ElementWiseSquaredDifference", [t, t], name="u")
    v = add(graph, "ElementWiseAdd", [u, t], name="v")
    w = add(graph, "ElementWiseMultiply", [v, v], name="w")
    w.kind = TensorKind.APP_READ
    feeds = {"x": whole(1, 3, 4)}
    np.testing.assert_array_equal(run_graph(graph, feeds).outputs["w"], evaluate(graph, feeds)["w"])


@pytest.mark.parametrize("slope", [0.2, 1.0, 3.0, -0.5, 0.0])
def test_prelu_with_one_slope(check_op, slope):
    x = np.concatenate([numbers(1, 40), np.float32([np.inf, np.nan, 0.0, -0.0])])
    check_op("Prelu", x, np.array([slope], np.float32), static=(1,))


@settings(max_examples=20)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple), st.booleans(), st.booleans())
def test_prelu_by_column(check_op, shape, is_static, has_ones):
    slopes = (*(1,) * (len(shape) - 1), shape[-1]) if has_ones else shape[-1:]
    given_statically = (1,) if is_static else ()
    check_op("Prelu", numbers(1, *shape), numbers(2, *slopes), static=given_statically)


@pytest.mark.parametrize("slopes", [(1,), (3, 1), (2, 3, 4), (2, 1, 1)])
def test_prelu_by_other_axes_is_left_to_the_reference(check_op, slopes):
    check_op("Prelu", numbers(1, 2, 3, 4), numbers(2, *slopes), kernel=False)


def test_prelu_in_blocks(check_op, monkeypatch):
    from dovetail_numpy.kernels import activation

    monkeypatch.setattr(activation, "block_size", lambda total: 8)
    check_op("Prelu", numbers(1, 13, 4), numbers(2, 4))
