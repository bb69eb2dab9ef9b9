"""Definitions on encodings at the edges: no warning, no undefined conversion, the exact result."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import DType, ScaleOffset, Spec

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
SHAPE = (1, 2, 2, 4)

SCALES = st.sampled_from([0.0, 1e-45, 1e-38, 1e-5, 0.1, 1.0, 300.0, 1e20, 3.4e38])
OFFSETS = st.sampled_from([0, -1, 7, -128, -255, -5000, 1 << 20, -(1 << 31), (1 << 31) - 1])
GRIDS = st.builds(ScaleOffset, SCALES, OFFSETS)
TYPES = st.sampled_from([U8, S8, U16, S16])

# Functions of two real numbers; None where there is no real result.
TWO = {
    "ElementWiseAdd": lambda a, b: a + b,
    "ElementWiseSubtract": lambda a, b: a - b,
    "ElementWiseMultiply": lambda a, b: a * b,
    "ElementWiseMaximum": max,
    "ElementWiseDivide": lambda a, b: a / b if b else None,
}
ONE = {
    "Relu": ({}, lambda x: max(x, 0)),
    "ElementWiseNeg": ({}, lambda x: -x),
    "Reshape": ({}, lambda x: x),
    "ReduceMax": ({"axes": [0], "keep_dims": True}, lambda x: x),
    "ReduceSum": ({"axes": [0], "keep_dims": True}, lambda x: x),
    "PoolAvg2d": (
        {"filter_size": [1, 1], "stride": [1, 1], "pad_amount": [[0, 0], [0, 0]]},
        lambda x: x,
    ),
    "ResizeBilinear": ({"align_corners": True}, lambda x: x),
}


def numbers(dtype):
    low, high = dtype.stored_range()
    edges = [low, low + 1, 0, 1, 100, high - 1, high, high // 2]
    return np.array([*edges, *edges[::-1]], dtype.storage).reshape(SHAPE)


def wanted(real, grid, dtype):
    """Return the nearest stored integer, and whether real numbers are as close to another one."""
    low, high = dtype.stored_range()
    zero = min(max(-grid.offset, low), high)
    if real is None:
        return None, False
    if grid.scale == 0:
        return zero, True
    steps = real / Fraction(grid.scale) - grid.offset
    return min(max(round(steps), low), high), abs(steps - round(steps)) > Fraction(49, 100)


def check(found, reals, grid, dtype, *, slack=0):
    for q, real in zip(found.reshape(-1).tolist(), reals, strict=True):
        exact, is_near_tie = wanted(real, grid, dtype)
        if exact is not None:
            assert abs(q - exact) <= max(slack, is_near_tie)


def reals_of(x, grid):
    return [(q + grid.offset) * Fraction(grid.scale) for q in x.reshape(-1).tolist()]


@pytest.mark.parametrize("op", ONE)
@given(TYPES, TYPES, GRIDS, GRIDS)
@settings(max_examples=60, deadline=None)
def test_one_tensor(node, run_node, op, dtype, kind, grid, target):
    params, function = ONE[op]
    x = numbers(dtype)
    view = node(op, [Spec(dtype, SHAPE, grid)], [Spec(kind, SHAPE, target)], **params)
    (found,) = run_node(view, x)
    if op == "Reshape" and (dtype, grid) == (kind, target):
        np.testing.assert_array_equal(found, x)
        return
    check(found, [function(r) for r in reals_of(x, grid)], target, kind)


@pytest.mark.parametrize("op", TWO)
@given(TYPES, GRIDS, GRIDS, GRIDS)
@settings(max_examples=60, deadline=None)
def test_two_tensors(node, run_node, op, dtype, first, second, target):
    a = numbers(dtype)
    b = a[:, ::-1]
    ins = [Spec(dtype, SHAPE, first), Spec(dtype, SHAPE, second)]
    (found,) = run_node(node(op, ins, [Spec(dtype, SHAPE, target)]), a, b)
    pairs = zip(reals_of(a, first), reals_of(b, second), strict=True)
    # scales of sums have 15 bits, and large numbers cancel
    slack = op in ("ElementWiseAdd", "ElementWiseSubtract")
    check(found, [TWO[op](x, y) for x, y in pairs], target, dtype, slack=slack)


@pytest.mark.parametrize(
    ("op", "params"),
    [
        ("ElementWisePower", {}),
        ("ElementWiseFloorDiv", {}),
        ("ElementWiseFmod", {}),
        ("ElementWiseGreater", {}),
        ("ElementWiseSquaredDifference", {}),
        ("ElementWiseAnd", {}),
        ("Prelu", {}),
    ],
)
@given(TYPES, GRIDS, GRIDS, GRIDS)
@settings(max_examples=60, deadline=None)
def test_no_warning_of_two_tensors(node, run_node, op, params, dtype, first, second, target):
    a = numbers(dtype)
    ins = [Spec(dtype, SHAPE, first), Spec(dtype, SHAPE, second)]
    view = node(op, ins, [Spec(dtype, SHAPE, target)], **params)
    (once,), (twice,) = run_node(view, a, a[:, ::-1]), run_node(view, a, a[:, ::-1].copy())
    np.testing.assert_array_equal(once, twice)


@pytest.mark.parametrize(
    "op", ["ElementWiseExp", "ElementWiseFloor", "ElementWiseLog", "Sigmoid", "Gelu", "HardSwish"]
)
@given(TYPES, GRIDS, GRIDS)
@settings(max_examples=30, deadline=None)
def test_no_warning_of_functions(node, run_node, op, dtype, grid, target):
    x = numbers(dtype)
    run_node(node(op, [Spec(dtype, SHAPE, grid)], [Spec(dtype, SHAPE, target)]), x)
