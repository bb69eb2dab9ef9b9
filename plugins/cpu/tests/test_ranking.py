"""Indices of the maximum and minimum against their reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import DType, Spec

filled = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize("op_type", ["Argmax", "Argmin"])
@settings(max_examples=40)
@given(
    filled,
    st.data(),
    st.booleans(),
    st.sampled_from([np.float32, np.float64, np.int32, np.uint8]),
    st.integers(0, 99),
)
def test_places(check_op, op_type, shape, data, keeps, dtype, seed):
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = np.random.default_rng(seed).integers(0, 4, shape).astype(dtype)
    check_op(op_type, x, axis=axis, keep_dims=keeps)


@pytest.mark.parametrize("op_type", ["Argmax", "Argmin"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 700, 48), 2), ((4000, 21), 1), ((2, 255, 30, 20), 1), ((2, 9000), 0)]
)
def test_places_in_long_columns(check_op, op_type, shape, axis):
    x = np.random.default_rng(2).integers(0, 40, shape).astype(np.float32)
    x.reshape(-1)[[5, 100, 101, -2]] = np.nan, np.inf, np.nan, -np.inf
    check_op(op_type, x, axis=axis, keep_dims=True)


@pytest.mark.parametrize("dtype", [DType.INT_32, DType.UINT_32, DType.INT_64, DType.FLOAT_32])
def test_places_as_other_types(check_op, dtype):
    x = np.array([[1, 3, 2], [0, 0, -1]], np.float32)
    check_op("Argmax", x, axis=1, specs=(Spec(dtype, (2,)),))


def test_nothing_is_left_to_the_reference(check_op):
    check_op("Argmax", np.zeros((0, 3), np.float32), axis=1, kernel=False)
