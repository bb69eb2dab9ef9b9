"""Elementwise operators against the peer, over versions, broadcasting and types."""

from __future__ import annotations

import numpy as np
import pytest

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
        *((name, v) for name in ("Cos", "Sin") for v in (7, 22)),
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


@pytest.mark.parametrize("opset", [7, 8, 12, 13])
@pytest.mark.parametrize("op_type", ["Sum", "Max", "Min"])
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
