"""Elementwise operators against the peer, over versions, broadcasting and types."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError

# One opset for every schema version from opset 7 on.
BINARY = [7, 13, 14]


@pytest.mark.parametrize("opset", BINARY)
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3)), ((2, 3, 4), (3, 1)), ((), (2,)), ((0, 3), (3,))]
)
def test_arithmetic(check, rng, op_type, shapes, opset) -> None:
    a, b = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    check(op_type, [a, b], opset=opset)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_division_keeps_the_type_and_truncates(check, dtype) -> None:
    a = np.array([7, -7, 7, -7], dtype)
    b = np.array([2, 2, -2, -2], dtype)
    check("Div", [a, b], opset=14)


@pytest.mark.parametrize(
    ("op_type", "opset"),
    [
        *((name, v) for name in ("Abs", "Ceil", "Exp", "Floor", "Neg") for v in (7, 13)),
        *((name, v) for name in ("Atan", "Cos", "Sin") for v in (7, 22)),
        ("Sign", 9),
        ("Sign", 13),
        ("Round", 11),
        ("Round", 22),
    ],
)
def test_functions(check, rng, op_type, opset) -> None:
    x = np.concatenate([rng.standard_normal(20) * 3, [0, 0.5, 1.5, -0.5, -2.5]])
    check(op_type, [x.astype(np.float32)], opset=opset)


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize("op_type", ["Sqrt", "Log", "Reciprocal"])
def test_functions_of_positive_numbers(check, rng, op_type, opset) -> None:
    check(op_type, [rng.uniform(0.1, 9, (3, 4)).astype(np.float32)], opset=opset)


@pytest.mark.parametrize("opset", [7, 12, 13, 15])
def test_power(check, rng, opset) -> None:
    x = rng.uniform(0.1, 3, (2, 3)).astype(np.float32)
    check("Pow", [x, np.array([2, 0.5, -1], np.float32)], opset=opset)
    check("Pow", [x], known=[np.array(2, np.float32)], opset=opset)


@pytest.mark.parametrize("exponent", [np.array(3, np.int64), np.array([2], np.int32)])
def test_power_takes_the_type_of_its_base(check, rng, exponent) -> None:
    x = rng.uniform(0.1, 3, (2, 3)).astype(np.float32)
    check("Pow", [x], known=[exponent], opset=15)
    check("Pow", [x, exponent], opset=15)


@pytest.mark.parametrize(
    ("base", "exponent"),
    [(np.int32, np.int64), (np.int64, np.int32), (np.int32, np.float32), (np.int64, np.float64)],
)
def test_power_of_integers_with_exponents_of_another_type(check, base, exponent) -> None:
    x = np.array([[-3, -1, 1, 2, 10]], base)
    check("Pow", [x, np.array([[0], [1], [2], [5]], exponent)], opset=15)


def test_power_with_short_exponents(model, read, run) -> None:
    """As ONNX's own evaluator; its runtime has no such power."""
    x = np.array([2, 3, 5, 7], np.int32)
    node = helper.make_node("Pow", ["x", "n"], ["y"])
    for n in (np.array([7, 0, 2, 1], np.int16), np.array([1, 2, 3, 4], np.uint8)):
        given = {"x": x, "n": n}
        found = run(read(model([node], given, ["y"], opset=15)), given)["y"]
        np.testing.assert_array_equal(found, x ** n.astype(np.int32))
        assert found.dtype == np.int32


@pytest.mark.parametrize("opset", [7, 8, 12, 13])
@pytest.mark.parametrize("op_type", ["Sum", "Max", "Min", "Mean"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_number_of_inputs(check, rng, op_type, opset, count) -> None:
    shape = (2, 3)
    check(
        op_type, [rng.standard_normal(shape).astype(np.float32) for _ in range(count)], opset=opset
    )


def test_a_constant_may_stand_on_either_side(check, rng) -> None:
    x = rng.standard_normal((2, 3)).astype(np.float32)
    check("Sub", [x], known=[np.array([1, 2, 3], np.float32)])


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_float_types(check, rng, dtype) -> None:
    # float16 keeps 11 bits, and the peer may round in another place
    tolerance = 2e-3 if dtype is np.float16 else 1e-12
    x, y = (rng.uniform(1, 2, (3, 4)).astype(dtype) for _ in range(2))
    graph = check("Mul", [x, y], rtol=tolerance, atol=tolerance)
    assert graph.tensor("y0").dtype.storage == np.dtype(dtype)


@pytest.mark.parametrize("op_type", ["Sum", "Max", "Min", "Mean"])
def test_any_number_of_inputs_broadcast(check, rng, op_type) -> None:
    shapes = ((2, 3), (1,), (4, 1, 1))
    check(op_type, [rng.standard_normal(s).astype(np.float32) for s in shapes], opset=13)


@pytest.mark.parametrize("opset", [7, 22])
def test_the_arc_sine_stays_within_its_domain(check, opset) -> None:
    check("Asin", [np.array([-1, -0.3, 0, 0.5, 1, 2], np.float32)], opset=opset)


SIGNS = ([7, -7, 7, -7, 6, -6, 0, 2], [3, 3, -3, -3, 3, 3, 5, -7])


@pytest.mark.parametrize("opset", [10, 13, 28])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("fmod", [0, 1])
def test_modulo_of_integers(check, dtype, fmod, opset) -> None:
    check("Mod", [np.array(values, dtype) for values in SIGNS], opset=opset, fmod=fmod)


@pytest.mark.parametrize("opset", [10, 13, 28])
def test_modulo_of_floats(check, opset) -> None:
    a = np.array([7.5, -7.5, 0, np.inf, 1, 1e9], np.float32)[:, None]
    b = np.array([2, -2, 0.1, 0, np.inf], np.float32)
    with np.errstate(invalid="ignore"):  # ONNX's evaluator warns of what has no remainder
        check("Mod", [a, b], opset=opset, fmod=1, rtol=0, atol=0)


def test_floored_modulo_of_floats(check) -> None:
    a = np.array([7.5, -7.5, 6, -6, 1e-30, -1e-30, 0, np.inf, np.nan], np.float32)[:, None]
    b = np.array([2, -2, 0.1, -3, np.inf, -np.inf, 0], np.float32)
    with np.errstate(invalid="ignore"):  # ONNX's evaluator warns of what has no remainder
        check("Mod", [a, b], opset=28, fmod=0, rtol=0, atol=0)


def test_modulo_says_what_it_cannot(model, read) -> None:
    x = np.ones(2, np.float32)
    for opset, fmod, why in (
        (13, 0, "fmod is 0, which is for integers"),
        (28, 2, "attribute fmod must be 0 or 1, got 2"),
    ):
        node = helper.make_node("Mod", ["x", "x"], ["y"], name="rest", fmod=fmod)
        with pytest.raises(FrontendError) as caught:
            read(model([node], {"x": x}, ["y"], opset=opset))
        (problem,) = caught.value.problems
        assert problem.where == "Mod node 'rest'"
        assert why in problem.message


@pytest.mark.parametrize("opset", [10, 20])
def test_infinities(check, opset) -> None:
    x = np.array([[np.inf, -np.inf, np.nan, 0, 3]], np.float32)
    check("IsInf", [x], opset=opset)
    check("IsInf", [x], opset=opset, detect_negative=0)
    check("IsInf", [x], opset=opset, detect_positive=0)
    check("IsInf", [x], opset=opset, detect_positive=0, detect_negative=0)


@pytest.mark.parametrize("opset", [9, 13, 20])
def test_not_a_number(check, opset) -> None:
    check("IsNaN", [np.array([np.inf, np.nan, 0], np.float32)], opset=opset)
    check("IsNaN", [np.array([np.inf, np.nan, 0], np.float16)], opset=opset)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_of_bits(check, dtype, direction) -> None:
    x, by = np.array([1, 200, 255, 77], dtype), np.array([0, 3, 7, 1], dtype)
    check("BitShift", [x, by], opset=11, direction=direction)
    check("BitShift", [x], known=[np.array(2, dtype)], opset=11, direction=direction)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_all_bits_can_be_shifted_out(check, direction) -> None:
    # opset 28 says that 0 is left; before, it was open
    x, by = np.array([1, 255], np.uint8), np.array([8, 200], np.uint8)
    check("BitShift", [x, by], opset=28, direction=direction)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64, np.uint64])
def test_all_bits_turned(check, dtype) -> None:
    limits = np.iinfo(dtype)
    check("BitwiseNot", [np.array([0, 1, 100, limits.min, limits.max], dtype)], opset=18)
