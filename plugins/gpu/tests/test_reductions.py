"""Reductions, softmax and searches on a device, against `cpu`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples, many_programs
from small_nets import real

LANES = (1, pytest.param(64, marks=many_programs))
VARIANTS = [{"lanes": 1}, {"lanes": 64}, {"is_half": True}]
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "SumSquare")


@examples(60)
@given(
    st.data(),
    st.sampled_from(REDUCTIONS),
    st.lists(st.sampled_from((1, 2, 3, 8, 11)), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from(VARIANTS),
)
def test_any_axes(check_op, data, name, shape, keep_dims, variant):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    x = real(*shape)
    if name == "Prod":
        x = 1 + x / 64  # a product of many others leaves float16
    params = {"axes": np.array(axes, np.uint32), "keep_dims": keep_dims}
    check_op(f"Reduce{name}", x, **variant, **params)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("shape", "axes"), [((60000,), [0]), ((30000, 9), [0]), ((2, 5000, 3), [0, 1])]
)
def test_long_sums(check_op, lanes, shape, axes):
    # one sum of so many numbers in float32 loses more digits
    x = 1 + real(*shape) / 256
    check_op("ReduceMean", x, lanes=lanes, rtol=1e-5, axes=axes)
    check_op("ReduceMax", x, lanes=lanes, axes=axes)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("lanes", LANES)
def test_reductions_not_finite(check_op, name, lanes):
    x = np.ones((4, 19), np.float32)
    x[0, 3] = x[1, 18] = np.nan
    x[2, 0], x[3, 5] = np.inf, -np.inf
    for axis in (0, 1):
        check_op(f"Reduce{name}", x, lanes=lanes, axes=[axis])


@pytest.mark.parametrize("name", ["Sum", "Mean", "Prod", "SumSquare"])
def test_no_elements(check_op, name):
    x = np.zeros((3, 0, 2), np.float32)
    for axes in ([1], [0], [1, 2]):
        check_op(f"Reduce{name}", x, axes=axes)


def test_scalars(check_op):
    check_op("ReduceSumSquare", np.asarray(np.float32(3)), axes=[0])


@examples(50)
@given(
    st.data(),
    st.sampled_from(("Softmax", "LogSoftmax")),
    st.lists(st.sampled_from((0, 1, 3, 8, 21)), min_size=1, max_size=4),
    st.sampled_from((1.0, 0.5, -2.0, 0.0)),
    st.sampled_from(VARIANTS),
)
def test_softmax(check_op, data, op_type, shape, beta, variant):
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = 3 * real(*shape)
    check_op(op_type, x, **variant, axis=axis, beta=beta)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("lanes", LANES)
def test_softmax_not_finite(check_op, op_type, lanes):
    x = real(5, 19)
    x[0, 3], x[1, 18], x[2, 0] = np.nan, np.inf, -np.inf
    x[3], x[4] = -np.inf, 1e30
    for axis in (0, 1):
        for beta in (1.0, -1.0):
            with np.errstate(invalid="ignore", over="ignore"):
                check_op(op_type, x, lanes=lanes, axis=axis, beta=beta)


@examples(50)
@given(
    st.data(),
    st.sampled_from(("Argmax", "Argmin")),
    st.lists(st.sampled_from((1, 2, 8, 27)), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from(VARIANTS),
)
def test_search(check_op, data, op_type, shape, keep_dims, variant):
    axis = data.draw(st.integers(0, len(shape) - 1))
    # few different numbers: the first of equal ones counts
    values = st.sampled_from((-1.0, 0.0, 2.0, np.nan, -np.inf, np.inf))
    few = data.draw(st.lists(values, min_size=1, max_size=3))
    seed = data.draw(st.integers(0, 99))
    x = np.random.default_rng(seed).choice(np.array(few, np.float32), shape)
    check_op(op_type, x, **variant, axis=axis, keep_dims=keep_dims)


@examples(50)
@given(st.data(), st.integers(0, 3), st.integers(1, 40), st.booleans(), st.booleans())
def test_top(check_op, data, rows, size, is_largest, is_half):
    seed, k = data.draw(st.integers(0, 99)), data.draw(st.integers(0, size))
    few = np.array([-1, 0, -0.0, 2, np.nan, -np.inf, np.inf, 0.5, 3], np.float32)
    x = np.random.default_rng(seed).choice(few, (rows, size))
    params = {"k": k, "largest": is_largest, "specs": (None, None)}
    check_op("TopK", x, is_half=is_half, **params)


@pytest.mark.parametrize("is_largest", [True, False])
def test_top_integers(check_op, is_largest):
    x = np.random.default_rng(1).integers(-9, 9, (3, 40)).astype(np.int32)
    check_op("TopK", x, k=7, largest=is_largest, specs=(None, None))
