"""Functions of one tensor that QNN has no single op for."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX

# Below, erf is the first terms of its series: the last one left out is 1e-9 of the sum.
_NEAR = 0.5
_TERMS = 7
_FAR = 6.0


@ONNX.importer("Erf", versions=(9, 13))
def erf(op: OpContext) -> Tensor:
    """Compute the series of erf near 0, and 2 * Gelu(z) / z - 1 of z = x * sqrt(2) elsewhere.

    Near 0 the difference would leave few digits.
    """
    x = op.tensor(0)
    if not x.dtype.is_float:
        raise op.unsupported(
            f"unsupported input type {x.dtype.name}", hint="cast it to a float type"
        )

    def number(name: str, value: float) -> Tensor:
        return op.static(name, np.asarray(value), x.dtype)

    size = op.step("size", "ElementWiseAbs", [x])
    near = op.step("near", "ElementWiseLess", [size, number("limit", _NEAR)])
    # beyond, erf is 1 in every float type but float64; infinity over itself would be NaN
    inside = op.step("inside", "ReluMinMax", [x], min_value=-_FAR, max_value=_FAR)
    scaled = op.step("scaled", "ElementWiseMultiply", [inside, number("root", math.sqrt(2))])
    # where it is not used, the divisor is 1: there would be 0 among those that are near
    divisor = op.step("divisor", "ElementWiseSelect", [near, number("one", 1), scaled])
    quotient = op.step(
        "quotient", "ElementWiseDivide", [op.step("gelu", "Gelu", [divisor]), divisor]
    )
    twice = op.step("twice", "ElementWiseMultiply", [quotient, number("two", 2)])
    far = op.step("far", "ElementWiseSubtract", [twice, number("one", 1)])
    square = op.step("square", "ElementWiseMultiply", [x, x])
    terms = [
        2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1))
        for n in range(_TERMS)
    ]
    total = number("term", terms[-1])
    for term in reversed(terms[:-1]):
        raised = op.step("raised", "ElementWiseMultiply", [total, square])
        total = op.step("total", "ElementWiseAdd", [raised, number("term", term)])
    series = op.step("series", "ElementWiseMultiply", [total, x])
    return op.emit("ElementWiseSelect", [near, series, far])


@ONNX.importer("Shrink", versions=(9,))
def shrink(op: OpContext) -> Tensor:
    """0 within the limits; beyond them x moved toward 0."""
    x = op.tensor(0)
    limit, bias = op.attr.number("lambd", 0.5), op.attr.number("bias", 0.0)
    low, high, shift, zero = (
        op.static(name, np.asarray(value), x.dtype)
        for name, value in (("low", -limit), ("high", limit), ("bias", bias), ("zero", 0))
    )
    less = op.step("less", "ElementWiseLess", [x, low])
    greater = op.step("greater", "ElementWiseGreater", [x, high])
    raised = op.step("raised", "ElementWiseAdd", [x, shift])
    lowered = op.step("lowered", "ElementWiseSubtract", [x, shift])
    upper = op.step("upper", "ElementWiseSelect", [greater, lowered, zero])
    return op.emit("ElementWiseSelect", [less, raised, upper])
