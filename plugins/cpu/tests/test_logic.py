"""Comparisons, logic and selection against their references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add

COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
LOGIC = ("And", "Or", "Xor")
NUMBERS = {1: "And", 3: "Equal", 6: "Greater", 7: "GreaterEqual", 8: "Less", 9: "LessEqual"}
NUMBERS |= {14: "NotEqual", 15: "Or", 19: "Xor"}
DTYPES = (np.bool_, np.int8, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64)
# sizes, and which of three tensors have them: the others have 1 there
axes_of_three = st.lists(st.tuples(st.integers(1, 4), st.tuples(*[st.booleans()] * 3)), max_size=4)


def arrays(axes, count, seed, dtype):
    rng = np.random.default_rng(seed)
    shapes = [tuple(n if has[i] else 1 for n, has in axes) for i in range(count)]
    return [rng.integers(0, 3, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("name", COMPARISONS + LOGIC)
@settings(max_examples=25)
@given(axes_of_three, st.sampled_from(DTYPES), st.integers(0, 99))
def test_two_tensors_broadcast(check_op, name, axes, dtype, seed):
    a, b = arrays(axes, 2, seed, dtype)
    check_op(f"ElementWise{name}", a, b)
    check_op(f"ElementWise{name}", b, a, static=(1,))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_by_number(check_op, number, dtype):
    a, b = arrays([(5, (1, 1)), (3, (0, 1))], 2, 1, dtype)
    (found,) = check_op("ElementWiseBinary", a, b, operation=number).values()
    (single,) = check_op(f"ElementWise{NUMBERS[number]}", a, b).values()
    np.testing.assert_array_equal(found, single)


@pytest.mark.parametrize("name", COMPARISONS)
def test_nan_and_infinity(check_op, name):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1], np.float32)
    check_op(f"ElementWise{name}", x[:, None], x)


@settings(max_examples=50)
@given(axes_of_three, st.sampled_from(DTYPES), st.integers(0, 99))
def test_select_broadcasts(check_op, axes, dtype, seed):
    condition, a, b = arrays(axes, 3, seed, dtype)
    check_op("ElementWiseSelect", condition != 0, a, b)
    check_op("ElementWiseSelect", condition != 0, a, b, static=(1,))


@pytest.mark.parametrize("size", [1, 300, 9000])
@pytest.mark.parametrize("broadcast", [None, 1, 2])
def test_select_of_few_and_many_elements(check_op, size, broadcast):
    """The result may overwrite an operand of few elements, and another one of many."""
    rng = np.random.default_rng(3)
    operands = list(rng.standard_normal((2, 3, size)).astype(np.float32))
    if broadcast is not None:
        operands[broadcast - 1] = operands[broadcast - 1][:1, :1]
    check_op("ElementWiseSelect", rng.random((3, size)) < 0.5, *operands)


def test_select_takes_the_bits_as_they_are(check_op):
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)
    for condition in ([True] * 5, [False] * 5, [True, False, True, False, True]):
        ran = check_op("ElementWiseSelect", np.array(condition), x, np.float32(-0.0).reshape(()))
        assert np.signbit(next(iter(ran.values()))[3])


def truths_and(spec):
    graph = Graph("g")
    condition = graph.add_tensor(Tensor("c", DType.BOOL_8, (2, 3), TensorKind.APP_WRITE))
    x, y = (
        graph.add_tensor(
            Tensor(name, spec.dtype, spec.shape, TensorKind.APP_WRITE, encoding=spec.encoding)
        )
        for name in "xy"
    )
    return graph, [condition, x, y]


@pytest.mark.parametrize(
    "encoding", [ScaleOffset(0.5, -3), AxisScaleOffset(0, (0.5, 0.25), (-3, -3))]
)
def test_select_of_fixed_point(run_graph, evaluate, encoding):
    spec = Spec(DType.UFIXED_POINT_8, (2, 3), encoding)
    graph, inputs = truths_and(spec)
    out = add(graph, "ElementWiseSelect", inputs, name="op", spec=spec)
    out.kind = TensorKind.APP_READ
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 256, (2, 2, 3), np.uint8)
    feeds = {"c": rng.random((2, 3)) < 0.5, "x": x, "y": y}
    ran = run_graph(graph, feeds)
    assert not ran.by_reference
    assert not ran.by_float_kernel
    np.testing.assert_array_equal(ran.outputs["op"], np.where(feeds["c"], x, y))
    np.testing.assert_array_equal(ran.outputs["op"], evaluate(graph, feeds)["op"])


def test_a_condition_that_is_also_chosen_from(run_graph):
    """One value is read twice and may not be overwritten by the result."""
    graph, (condition, x, y) = truths_and(Spec(DType.BOOL_8, (2, 3)))
    t = add(graph, "ElementWiseNot", [condition], name="t")
    u = add(graph, "ElementWiseXor", [x, y], name="u")
    v = add(graph, "ElementWiseSelect", [t, t, u], name="v")
    w = add(graph, "ElementWiseSelect", [v, u, v], name="w")
    w.kind = TensorKind.APP_READ
    rng = np.random.default_rng(1)
    c, x, y = rng.random((3, 2, 3)) < 0.5
    chosen = np.where(~c, ~c, x != y)
    found = run_graph(graph, {"c": c, "x": x, "y": y}).outputs["w"]
    np.testing.assert_array_equal(found, np.where(chosen, x != y, chosen))


def test_what_is_left_to_the_reference(check_op):
    a, b = np.array([0, 2, 3], np.int32), np.array(2, np.int32)
    check_op("ElementWiseSelect", a, a, b, kernel=False)
    check_op("ElementWiseSelect", a[:0] > 0, a[:0], b, kernel=False)
    check_op("ElementWiseLess", a[:0], b, kernel=False)
    check_op("ElementWiseAnd", a, b > 1, kernel=False)
    check_op("ElementWiseLess", a, b, kernel=False, specs=(Spec(DType.UINT_8, (3,)),))


@pytest.mark.parametrize("op_type", ["IsNan", "IsInf"])
def test_special_numbers(check_op, op_type):
    x = np.array([[np.nan, np.inf, -np.inf], [0.0, -0.0, 3e38]], np.float32)
    check_op(op_type, x)
    check_op(op_type, x[:0], kernel=False)


def test_infinities_of_one_sign(check_op):
    x = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    for positive in (False, True):
        params = {"detect_positive": positive, "detect_negative": not positive}
        check_op("IsInf", x, kernel=False, **params)
