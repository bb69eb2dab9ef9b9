"""Elementwise ops of one tensor against Python's own numbers."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add

Run = Callable[..., Any]
Function = Callable[..., Any]

UNARY: dict[str, Function] = {
    "ElementWiseAbs": abs,
    "ElementWiseAsin": math.asin,
    "ElementWiseAtan": math.atan,
    "ElementWiseCeil": math.ceil,
    "ElementWiseCos": math.cos,
    "ElementWiseExp": math.exp,
    "ElementWiseFloor": math.floor,
    "ElementWiseLog": math.log,
    "ElementWiseNeg": operator.neg,
    "ElementWiseNot": operator.not_,
    "ElementWiseRound": round,
    "ElementWiseRsqrt": lambda x: x**-0.5,
    "ElementWiseSign": lambda x: (x > 0) - (x < 0),
    "ElementWiseSin": math.sin,
    "ElementWiseSquareRoot": math.sqrt,
    "Logit": lambda x: math.log(x) - math.log1p(-x),
}
RANGES = dict.fromkeys(UNARY, (-4.0, 4.0))
RANGES |= dict.fromkeys(("ElementWiseLog", "ElementWiseRsqrt", "ElementWiseSquareRoot"), (0.1, 4))
RANGES |= {"ElementWiseAsin": (-1, 1), "Logit": (0.01, 0.99)}

# What ElementWiseUnary means by each number: the alphabet's order; 10 has no op of its own.
BY_NUMBER = [name for name in UNARY if name != "Logit"]
BY_NUMBER.insert(10, "reciprocal")

INFINITE = np.array([1, np.inf, -np.inf, np.nan, 0], np.float32)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("shape", [(), (0, 2), (7,), (2, 3, 4)])
def test_unary(name: str, run_op: Run, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    x = rng.uniform(*RANGES[name], shape).astype(np.float32)
    y = run_op(name, x)
    assert (y.shape, y.dtype) == (shape, np.float32)
    want = [UNARY[name](v) for v in x.ravel().tolist()]
    # one operation or two, correctly rounded or nearly so
    np.testing.assert_allclose(y.ravel(), want, rtol=5e-7, atol=1e-7)


@pytest.mark.parametrize("number", range(16))
def test_by_number(number: int, run_op: Run, rng: np.random.Generator) -> None:
    name = BY_NUMBER[number]
    function, limits = UNARY.get(name, lambda v: 1 / v), RANGES.get(name, (0.1, 4))
    x = rng.uniform(*limits, (3, 5)).astype(np.float32)
    y = run_op("ElementWiseUnary", x, operation=number)
    want = [function(v) for v in x.ravel().tolist()]
    # one operation, correctly rounded or nearly so
    np.testing.assert_allclose(y.ravel(), want, rtol=5e-7, atol=1e-7)


def test_round_takes_the_even_one_of_two(run_op: Run) -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    np.testing.assert_array_equal(run_op("ElementWiseRound", x), [-2, -2, 0, 0, 2, 2])


def test_whole_numbers_stay(run_op: Run) -> None:
    x = np.array([-(2**62) - 1, 2**62 + 1], np.int64)  # more digits than a float64 has
    for name in ("Round", "Ceil", "Floor"):
        np.testing.assert_array_equal(run_op(f"ElementWise{name}", x), x)


def test_integers_of_one_sign_and_their_inverses(run_op: Run) -> None:
    x = np.array([-3, -1, 0, 1, 4], np.int32)
    np.testing.assert_array_equal(run_op("ElementWiseSign", x), [-1, -1, 0, 1, 1])
    np.testing.assert_array_equal(run_op("ElementWiseAbs", x), [3, 1, 0, 1, 4])
    np.testing.assert_array_equal(run_op("ElementWiseUnary", x, operation=10), [0, -1, 0, 1, 0])


def test_outside_of_the_domain_is_nan_without_warnings(run_op: Run) -> None:
    x = np.array([-2, 2], np.float32)
    assert np.isnan(run_op("ElementWiseAsin", x)).all()
    assert np.isnan(run_op("Logit", x)).all()
    assert np.isnan(run_op("ElementWiseSquareRoot", x))[0]
    ends = run_op("Logit", np.array([0, 1], np.float32))
    np.testing.assert_array_equal(ends, [-np.inf, np.inf])


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.float32])
def test_not_gives_the_type_it_takes(run_op: Run, dtype: Any) -> None:
    x = np.array([0, 1, 1, 0]).astype(dtype)
    for y in (run_op("ElementWiseNot", x), run_op("ElementWiseUnary", x, operation=9)):
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, np.array([1, 0, 0, 1]).astype(dtype))


def test_not_of_fixed_point_looks_at_real_values(evaluate: Callable[..., Any]) -> None:
    half = ScaleOffset(0.5, -3)  # 3 is stored for 0, 5 for 1
    graph = Graph("g")
    x = Tensor("x", DType.UFIXED_POINT_8, (3,), TensorKind.APP_WRITE, encoding=half)
    graph.add_tensor(x)
    add(graph, "ElementWiseNot", [x], name="y", spec=Spec(DType.UFIXED_POINT_8, (3,), half))
    stored = evaluate(graph, {"x": np.array([0, 3, 9], np.uint8)})["y"]
    np.testing.assert_array_equal(stored, [3, 5, 3])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_is_no_finite_number(run_op: Run, dtype: Any) -> None:
    x = INFINITE.astype(dtype)
    for name, params, want in (
        ("IsNan", {}, [0, 0, 0, 1, 0]),
        ("IsInf", {}, [0, 1, 1, 0, 0]),
        ("IsInf", {"detect_negative": False}, [0, 1, 0, 0, 0]),
        ("IsInf", {"detect_positive": False}, [0, 0, 1, 0, 0]),
        ("IsInf", {"detect_negative": False, "detect_positive": False}, [0, 0, 0, 0, 0]),
    ):
        y = run_op(name, x, **params)
        assert y.dtype == np.bool_
        assert y.tolist() == [bool(w) for w in want]
    assert run_op("IsNan", x[3]).shape == ()


def test_refusals(run_op: Run) -> None:
    for name in ("IsInf", "IsNan"):
        with pytest.raises(OpError, match=r"in\[0\] is INT_32; it must be a float type"):
            run_op(name, np.zeros(2, np.int32))
    for name, params in (("ElementWiseNeg", {}), ("ElementWiseUnary", {"operation": 8})):
        with pytest.raises(OpError, match=r"in\[0\] must be a number, but is BOOL_8"):
            run_op(name, np.zeros(2, np.bool_), **params)
    with pytest.raises(OpError, match="'operation' is 16; allowed: ABS=0"):
        run_op("ElementWiseUnary", np.zeros(2, np.float32), operation=16)
