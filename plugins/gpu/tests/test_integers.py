"""Elementwise functions of integers on a device, against `cpu`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples

SHAPES = st.lists(st.sampled_from((1, 2, 3, 8, 17)), max_size=5).map(tuple)
# Of other types than int32 those whose code depends on the type.
BINARY = [
    *((name, np.int32) for name in ("Add", "Subtract", "Multiply", "Divide", "Maximum")),
    *((name, np.int32) for name in ("SquaredDifference", "FloorDiv", "Fmod", "Mod", "Power")),
    *((name, np.uint8) for name in ("Multiply", "Divide", "Power")),
    *((name, np.uint32) for name in ("Multiply", "FloorDiv", "Mod")),
    *((name, np.int8) for name in ("Subtract", "FloorDiv")),
]


@pytest.mark.parametrize(("name", "dtype"), BINARY)
def test_sums_wrap_and_quotients_are_whole(check_op, name, dtype):
    info = np.iinfo(dtype)
    numbers = [info.min, info.min + 1, 0, 1, 2, 3, 7, 31, info.max - 1, info.max]
    numbers += [-1, -2, -3, -7] if info.min else []
    first, second = np.meshgrid(np.array(numbers, dtype), np.array(numbers, dtype))
    with np.errstate(all="ignore"):
        check_op(f"ElementWise{name}", first, second)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_functions_of_one_tensor(check_op, dtype):
    x = np.array([0, 1, 5, 100, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    for name in ("Abs", "Neg", "Sign", "Not"):
        check_op(f"ElementWise{name}", x)
    check_op("ReluMinMax", x, min_value=-1.5, max_value=6.5)
    check_op("ElementWiseUnary", x, operation=10)


@examples(40)
@given(SHAPES, st.sampled_from((np.int32, np.uint8)))
def test_any_shapes_broadcast(check_op, shape, dtype):
    x = np.random.default_rng(1).integers(0, 100, (*shape, 3)).astype(dtype)
    check_op("ElementWiseAdd", x, np.array([1, 2, 3], dtype))
    check_op("ElementWiseMultiply", np.array([[3]], dtype), x)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 8), (1, 1)])
def test_shapes_without_axes_or_elements(check_op, shape):
    check_op("ElementWiseNeg", np.ones(shape, np.int32))
