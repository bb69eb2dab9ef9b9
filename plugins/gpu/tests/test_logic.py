"""Comparisons, logic and selection on a device, against `cpu`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples
from small_nets import real

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add

COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, 1e-40, np.inf, -np.inf, np.nan, 3.0], np.float32)
# neighbors that float32 does not tell apart
WIDE = np.array([2**31 - 1, 2**31 - 2, 2**24, 2**24 + 1, -(2**31), -1, 0], np.int32)
SHAPES = st.lists(st.sampled_from((1, 2, 3, 8, 17)), max_size=4).map(tuple)


def truth(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.bool_)


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_of_real_numbers(check_op, name):
    # subnormal numbers count as 0 on some devices
    first, second = np.meshgrid(SPECIAL, SPECIAL[np.float32(1e-40) != SPECIAL])
    check_op(f"ElementWise{name}", first, second)


@pytest.mark.parametrize("name", ["Equal", "Less"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.bool_])
def test_comparisons_of_integers_are_exact(check_op, name, dtype):
    first, second = np.meshgrid(WIDE.astype(dtype), WIDE.astype(dtype))
    check_op(f"ElementWise{name}", first, second)


@examples(40)
@given(SHAPES, SHAPES)
def test_any_shapes_broadcast(check_op, shape, extra):
    short = tuple(1 if i % 2 else n for i, n in enumerate(shape))
    check_op("ElementWiseGreater", real(*extra, *short), real(*shape, seed=2))
    check_op("ElementWiseAnd", truth(*shape), truth(*extra, *short, seed=2))


@pytest.mark.parametrize("name", ["And", "Or", "Xor"])
def test_logic_of_any_numbers(check_op, name):
    first, second = np.meshgrid([0, 3, 255], [0, 1, 16])
    check_op(f"ElementWise{name}", first.astype(np.uint8), second.astype(np.uint8))
    check_op(f"ElementWise{name}", *np.meshgrid(SPECIAL, np.array([0, 5], np.int32)))


@pytest.mark.parametrize("dtype", [DType.UINT_8, DType.INT_32])
def test_truth_as_a_number(check_op, dtype):
    specs = [Spec(dtype, (3, 9))]
    check_op("ElementWiseGreater", real(3, 9), real(9, seed=2), specs=specs)
    check_op("ElementWiseEqual", np.tile(WIDE[:3], (3, 3)), WIDE[[0, 2] * 4 + [1]], specs=specs)


def test_truth_in_fixed_point(run):
    graph = Graph("net")
    spec = Spec(DType.UFIXED_POINT_8, (9,), ScaleOffset(1 / 128, 0))
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (9,), TensorKind.APP_WRITE))
    y = add(graph, "ElementWiseGreater", [x, x], name="no", spec=spec)
    z = add(graph, "ElementWiseEqual", [x, x], name="yes", spec=spec)
    y.kind = z.kind = TensorKind.APP_READ
    found = run(graph, {"x": SPECIAL})
    np.testing.assert_array_equal(found["no"], np.zeros(9, np.uint8))
    np.testing.assert_array_equal(found["yes"], np.where(np.isnan(SPECIAL), 0, 128))


@examples(40)
@given(st.data(), SHAPES, st.booleans())
def test_selection_with_three_broadcasts(check_op, data, shape, is_half):
    short = []
    for _ in range(3):
        keeps = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
        short.append(tuple(n if keep else 1 for n, keep in zip(shape, keeps, strict=True)))
    first, second = real(*short[1], seed=2), real(*short[2], seed=3)
    check_op("ElementWiseSelect", truth(*short[0]), first, second, is_half=is_half)


@pytest.mark.parametrize("condition", [np.bool_, np.int32, np.uint8])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_selection_by_any_number(check_op, condition, dtype):
    wanted = np.array([0, 2, 1, 0, 2**20, 0, 7], np.int64).astype(condition)
    check_op("ElementWiseSelect", wanted, WIDE.astype(dtype), WIDE[::-1].astype(dtype))


def test_selection_keeps_what_is_not_finite(check_op):
    check_op("ElementWiseSelect", truth(9), SPECIAL[:, None], SPECIAL)


def test_tests_of_numbers(check_op):
    check_op("IsNan", SPECIAL)
    for positive, negative in ((True, True), (True, False), (False, True), (False, False)):
        check_op("IsInf", SPECIAL, detect_positive=positive, detect_negative=negative)


def test_not(check_op):
    check_op("ElementWiseNot", truth(3, 9))
    check_op("ElementWiseUnary", np.array([0, 1, 200], np.uint8), operation=9)
