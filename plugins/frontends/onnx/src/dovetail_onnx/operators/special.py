"""Functions of one tensor that QNN has no single op for."""

from __future__ import annotations

import math

from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import clip, operand, where
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value

# Below, erf is the first terms of its series: the last one left out is 1e-9 of the sum.
_NEAR = 0.5
_TERMS = 7
_FAR = 6.0


@ONNX.importer("Erf", versions=(9, 13))
def erf(op: OpContext) -> Value:
    """Compute the series of erf near 0, and 2 * Gelu(z) / z - 1 of z = x * sqrt(2) elsewhere.

    Near 0 the difference would leave few digits.
    """
    x = operand(op, 0)
    if not x.dtype.is_float:
        raise op.unsupported(
            f"unsupported input type {x.dtype.name}", hint="cast it to a float type"
        )

    near = abs(x) < _NEAR
    # beyond, erf is 1 in every float type but float64; infinity over itself would be NaN
    inside = clip(x, -_FAR, _FAR)
    # where it is not used, the divisor is 1: there would be 0 among those that are near
    z = where(near, 1, inside * math.sqrt(2))
    far = z.apply("Gelu") / z * 2 - 1
    # as far as it is used: powers of all x would leave a quantized model no digits
    small = clip(x, -_NEAR, _NEAR)
    square = small * small
    *terms, last = (
        2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1))
        for n in range(_TERMS)
    )
    total = x.expr(last)
    for term in reversed(terms):
        total = total * square + term
    return where(near, total * small, far).emit()


@ONNX.importer("Shrink", versions=(9,))
def shrink(op: OpContext) -> Value:
    """0 within the limits; beyond them x moved toward 0."""
    x = operand(op, 0)
    limit, bias = op.attr.number("lambd", 0.5), op.attr.number("bias", 0.0)
    return where(x < -limit, x + bias, where(x > limit, x - bias, 0)).emit()
