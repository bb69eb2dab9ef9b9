"""Functions that are formulas of ops, against the peer."""

from __future__ import annotations

import numpy as np
import pytest

# A few roundings of float32, of 6e-8 each, by the formula and by the peer.
ROUNDINGS = 1e-6
SMALL = [1e-7, -1e-5, 3e-4, 0.01, -0.1]


@pytest.mark.parametrize("opset", [9, 22])
@pytest.mark.parametrize(
    ("op_type", "values"),
    [
        ("Tan", [0, *SMALL, 1, -1.5, 1.57, 3, -40]),
        ("Acos", [-1, -0.9999999, -0.5, 0, *SMALL, 0.5, 0.999, 0.9999999, 1]),
        ("Sinh", [0, *SMALL, 1, -5, 30, 88, -88, np.inf, -np.inf]),
        ("Cosh", [0, *SMALL, 1, -5, 30, 88, -88, np.inf, -np.inf]),
    ],
)
def test_right_to_the_last_digits(check, op_type, values, opset) -> None:
    x = np.array(values, np.float32)
    check(op_type, [x], opset=opset, rtol=ROUNDINGS, atol=0)


@pytest.mark.parametrize("opset", [9, 22])
@pytest.mark.parametrize(
    ("op_type", "values"),
    [
        ("Asinh", [0, *SMALL, 1, -5, 1e6, -1e15, 3e20, -1e38]),
        ("Acosh", [1, 1.0000001, 1.001, 2, 100, 1e15, 1e30]),
        ("Atanh", [-1, -0.999, 0, *SMALL, 0.5, 0.9999, 1]),
    ],
)
def test_right_to_one_in_ten_million(check, op_type, values, opset) -> None:
    # where the result is small the logarithm of a number near 1 leaves an absolute error
    check(op_type, [np.array(values, np.float32)], opset=opset, rtol=ROUNDINGS, atol=2e-7)


def test_outside_of_the_domain(check) -> None:
    for op_type, values in (("Acos", [-1.5, 1.5]), ("Acosh", [0.5, -3]), ("Atanh", [-2, 2])):
        check(op_type, [np.array(values, np.float32)])


def test_half_precision_does_not_overflow_on_the_way(check) -> None:
    # no float16 in ONNX Runtime for it: ONNX's own evaluator, which computes in float16 too, is
    # the peer, as an opset beyond ONNX Runtime's asks for it
    x = np.array([0, 1, 100, -300, 30000], np.float16)
    graph = check("Asinh", [x], opset=25, rtol=2e-3, atol=0)  # float16 has 11 bits
    assert graph.tensor("y0").dtype.storage == np.float16
