"""Elementwise ops of two tensors against Python's own numbers, broadcasting included."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec

Run = Callable[..., Any]
Function = Callable[..., Any]

BINARY: dict[str, Function] = {
    "Add": operator.add,
    "Subtract": operator.sub,
    "Multiply": operator.mul,
    "Divide": operator.truediv,
    "Power": math.pow,
    "Maximum": max,
    "Minimum": min,
    "SquaredDifference": lambda a, b: (a - b) ** 2,
    "Fmod": math.fmod,
}
# The numbers of ElementWiseBinary, and what they mean for numbers.
BY_NUMBER: dict[int, Function] = {
    0: operator.add,
    1: lambda a, b: a != 0 and b != 0,
    2: operator.truediv,
    3: operator.eq,
    4: operator.floordiv,
    5: math.fmod,
    6: operator.gt,
    7: operator.ge,
    8: operator.lt,
    9: operator.le,
    10: max,
    11: min,
    12: operator.mod,
    13: operator.mul,
    14: operator.ne,
    15: lambda a, b: a != 0 or b != 0,
    16: math.pow,
    17: lambda a, b: (a - b) ** 2,
    18: operator.sub,
    19: lambda a, b: (a != 0) != (b != 0),
}
TRUTHS = {1, 3, 6, 7, 8, 9, 14, 15, 19}


def expected(function: Function, a: Array, b: Array) -> Array:
    """Apply a function of Python numbers to every pair, by indices that broadcast by hand."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    y = np.zeros(shape)
    for place in np.ndindex(*shape):
        values = []
        for x in (a, b):
            own = place[len(shape) - x.ndim :]
            values.append(
                x[tuple(0 if n == 1 else i for i, n in zip(own, x.shape, strict=True))].item()
            )
        y[place] = function(*values)
    return y


@pytest.mark.parametrize("name", BINARY)
@given(
    hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3),
    st.integers(0, 99),
)
def test_binary(name: str, run_op: Run, shapes: hnp.BroadcastableShapes, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(0.5, 2, s).astype(np.float32) for s in shapes.input_shapes)
    y = run_op(f"ElementWise{name}", a, b)
    assert y.dtype == np.float32
    # one operation, correctly rounded or nearly so
    np.testing.assert_allclose(y, expected(BINARY[name], a, b), rtol=5e-7, atol=1e-7)


def test_integers_divide_towards_zero(run_op: Run) -> None:
    a = np.array([7, -7, 7, -7, 6, -6, 5], np.int32)
    b = np.array([2, 2, -2, -2, 3, 3, 0], np.int32)
    np.testing.assert_array_equal(run_op("ElementWiseDivide", a, b), [3, -3, -3, 3, 2, -2, 0])
    big = np.array([2**62 + 1], np.int64)  # more digits than a float64 has
    np.testing.assert_array_equal(run_op("ElementWiseDivide", big, np.array([1])), big)


def test_powers_of_integers(run_op: Run) -> None:
    a = np.array([2, 3, 2, 1, -1, -1, -2], np.int32)
    b = np.array([10, 0, -1, -5, -5, -4, 3], np.int32)
    np.testing.assert_array_equal(run_op("ElementWisePower", a, b), [1024, 1, 0, 1, -1, 1, -8])


def test_what_has_no_number_gives_nan_or_inf_without_warnings(run_op: Run) -> None:
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    assert run_op("ElementWiseDivide", one, zero)[0] == np.inf
    assert run_op("ElementWiseFloorDiv", -one, zero)[0] == -np.inf
    assert np.isnan(run_op("ElementWiseFmod", one, zero)[0])


SIGNS = [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (-6, 3), (0, 5), (2, 7), (-2, 7)]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_remainders_and_floors_of_integers(run_op: Run, dtype: Any) -> None:
    a, b = (np.array(column, dtype) for column in zip(*SIGNS, strict=True))
    for name, function in (
        ("FloorDiv", operator.floordiv),
        ("Mod", operator.mod),
        ("Fmod", math.fmod),
    ):
        y = run_op(f"ElementWise{name}", a, b)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, [function(p, q) for p, q in SIGNS])
    big = np.array([2**62 + 1], np.int64)  # more digits than a float64 has
    np.testing.assert_array_equal(
        run_op("ElementWiseFloorDiv", -big, np.array([2])), [-(2**61) - 1]
    )


def test_integers_by_zero_give_zero(run_op: Run) -> None:
    a, zero = np.array([5, -5], np.int32), np.array(0, np.int32)
    for name in ("Divide", "FloorDiv", "Mod", "Fmod"):
        np.testing.assert_array_equal(run_op(f"ElementWise{name}", a, zero), [0, 0])


def test_floats_floor_towards_minus_infinity(run_op: Run) -> None:
    a = np.array([7, -7, 7, -7, 1], np.float32)
    b = np.array([2, 2, -2, -2, 0.1], np.float32)
    # the last: the quotient rounds to 10 before its floor is taken
    np.testing.assert_array_equal(run_op("ElementWiseFloorDiv", a, b), [3, -4, -4, 3, 10])


def test_the_remainder_of_floats_has_the_sign_of_the_first(run_op: Run) -> None:
    a, b = np.array([7.5, -7.5, 7.5], np.float32), np.array([2, 2, -2], np.float32)
    np.testing.assert_array_equal(run_op("ElementWiseFmod", a, b), [1.5, -1.5, 1.5])


@pytest.mark.parametrize("number", BY_NUMBER)
def test_by_number(run_op: Run, number: int) -> None:
    values = [-3, -1, 0, 1, 2, 5]
    a = np.array([-4, 0, 1, 3, 7, 9], np.int32).reshape(6, 1)
    b = np.array([v for v in values if v or number in TRUTHS], np.int32)
    if number != 12:  # only integers have it
        a, b = a.astype(np.float32), b.astype(np.float32)
    if number == 16:
        a, b = np.abs(a) + 1, b  # a root of a negative number is none
    y = run_op("ElementWiseBinary", a, b, operation=number)
    assert y.dtype == (np.bool_ if number in TRUTHS else a.dtype)
    # one operation, correctly rounded or nearly so
    np.testing.assert_allclose(y, expected(BY_NUMBER[number], a, b), rtol=5e-7, atol=0)


def test_by_number_is_what_the_single_op_is(run_op: Run) -> None:
    a, b = np.array([-7, 7], np.int32), np.array([2, 0], np.int32)
    np.testing.assert_array_equal(run_op("ElementWiseBinary", a, b, operation=2), [-3, 0])
    spec = Spec(DType.INT_32, (2,))
    found = run_op("ElementWiseBinary", a, b, operation=6, specs=(spec,))
    np.testing.assert_array_equal(found, [0, 1])
    assert found.dtype == np.int32
    with pytest.raises(OpError, match=r"in\[0\] must be an integer type, but is FLOAT_32"):
        run_op("ElementWiseBinary", a.astype(np.float32), b.astype(np.float32), operation=12)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.uint8, np.int64])
def test_other_types_stay(run_op: Run, dtype: Any) -> None:
    a, b = np.array([9, 7, 250], dtype), np.array([2, 7, 3], dtype)
    for name, want in (
        ("FloorDiv", [4, 1, 83]),
        ("Fmod", [1, 0, 1]),
        ("Maximum", [9, 7, 250]),
        ("Subtract", [7, 0, 247]),
    ):
        y = run_op(f"ElementWise{name}", a, b)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, want)


def test_truth_values_have_a_greater_one_but_no_sum(run_op: Run) -> None:
    a, b = np.array([True, False]), np.array([False, False])
    np.testing.assert_array_equal(run_op("ElementWiseMaximum", a, b), [True, False])
    for name in ("Add", "Subtract", "Divide", "Power", "FloorDiv", "Mod", "Fmod"):
        with pytest.raises(OpError, match=r"in\[0\] must be a number, but is BOOL_8"):
            run_op(f"ElementWise{name}", a, b)


def test_refusals(run_op: Run) -> None:
    a = np.zeros((2, 3), np.float32)
    with pytest.raises(OpError, match=r"\(2, 3\) and \(4,\) do not broadcast"):
        run_op("ElementWiseAdd", a, np.zeros(4, np.float32))
    with pytest.raises(OpError, match="different types: FLOAT_32 and INT_32"):
        run_op("ElementWiseAdd", a, np.zeros(3, np.int32))
    with pytest.raises(OpError, match=r"in\[0\] must be an integer type, but is FLOAT_32"):
        run_op("ElementWiseMod", a, a)
