"""Matrix products against the references, on whole numbers: every order of sums is exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_numpy.kernels import convolution

extent = st.integers(1, 5)


@settings(max_examples=60)
@given(
    st.lists(extent, min_size=0, max_size=3),
    extent,
    st.integers(1, 7),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_fully_connected(check_op, whole, before, k, units, keeps, has_bias, is_static, seed):
    x, weight = whole(seed, *before, k), whole(seed + 1, units, k)
    bias = whole(seed + 2, units) if has_bias else None
    static = (1, 2) if is_static else ()
    check_op("FullyConnected", x, weight, bias, static=static, keep_dims=keeps)


def test_fully_connected_takes_an_image_as_one_row(check_op, whole):
    out = check_op("FullyConnected", whole(1, 2, 3, 3, 4), whole(2, 5, 36), static=(1,))
    assert out["y0"].shape == (2, 5)


@settings(max_examples=80)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), max_size=2),
    extent,
    extent,
    extent,
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.booleans(),
    st.integers(0, 99),
)
def test_matmul(check_op, whole, batches, m, k, n, flags, right_is_matrix, seed):
    turns0, turns1, has_bias = flags
    # 0: only the left has the axis, 1: only the right, 2: both
    left = [1 if side == 1 else e for e, side in batches]
    right = [] if right_is_matrix else [1 if side == 0 else e for e, side in batches]
    a = whole(seed, *left, *((k, m) if turns0 else (m, k)))
    b = whole(seed + 1, *right, *((n, k) if turns1 else (k, n)))
    bias = whole(seed + 2, n) if has_bias else None
    check_op("MatMul", a, b, bias, transpose_in0=turns0, transpose_in1=turns1)


@pytest.mark.parametrize("piece", [1, 50])
def test_rows_in_pieces(check_op, whole, monkeypatch, piece):
    monkeypatch.setattr(convolution, "PIECE", piece)
    check_op("FullyConnected", whole(1, 23, 6), whole(2, 7, 6), whole(3, 7), static=(1, 2))
    check_op("MatMul", whole(1, 3, 11, 6), whole(2, 6, 7), whole(3, 7))


def test_nothing_to_sum_over_is_left_to_the_reference(check_op):
    a, b = np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)
    out = check_op("MatMul", a, b, kernel=False)
    np.testing.assert_array_equal(out["y0"], np.zeros((2, 3)))
