"""Elementwise ops against Python's own numbers, broadcasting included."""

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
from dovetail.ir import Array

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
}
UNARY: dict[str, Function] = {
    "Abs": abs,
    "Ceil": math.ceil,
    "Cos": math.cos,
    "Exp": math.exp,
    "Floor": math.floor,
    "Log": math.log,
    "Neg": operator.neg,
    "Round": round,
    "Rsqrt": lambda x: x**-0.5,
    "Sign": lambda x: (x > 0) - (x < 0),
    "Sin": math.sin,
    "SquareRoot": math.sqrt,
}
POSITIVE = {"Log", "Rsqrt", "SquareRoot"}


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


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("shape", [(), (0, 2), (7,), (2, 3, 4)])
def test_unary(name: str, run_op: Run, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    x = rng.uniform(0.1 if name in POSITIVE else -4, 4, shape).astype(np.float32)
    y = run_op(f"ElementWise{name}", x)
    assert (y.shape, y.dtype) == (shape, np.float32)
    want = [UNARY[name](v) for v in x.ravel().tolist()]
    # one operation, correctly rounded or nearly so
    np.testing.assert_allclose(y.ravel(), want, rtol=5e-7, atol=1e-7)


def test_round_takes_the_even_one_of_two(run_op: Run) -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    np.testing.assert_array_equal(run_op("ElementWiseRound", x), [-2, -2, 0, 0, 2, 2])


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
    assert np.isnan(run_op("ElementWiseSquareRoot", -one)[0])


def test_refusals(run_op: Run) -> None:
    a = np.zeros((2, 3), np.float32)
    with pytest.raises(OpError, match=r"\(2, 3\) and \(4,\) do not broadcast"):
        run_op("ElementWiseAdd", a, np.zeros(4, np.float32))
    with pytest.raises(OpError, match="different types: FLOAT_32 and INT_32"):
        run_op("ElementWiseAdd", a, np.zeros(3, np.int32))
