"""Trigonometric and hyperbolic functions without an op, as formulas of functions with one.

Each formula is chosen to be precise in float32: Tan, Acos, Sinh and Cosh are right to a few
roundings everywhere. There is no logarithm of 1 + x, so Asinh, Acosh and Atanh are off by about
1e-7 where they are small, however small that is. Limits, for simplicity: Sinh and Cosh are
infinite from half of the type's maximum on, Asinh and Acosh for such an x.
"""

from __future__ import annotations

from dovetail.ir import DType
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import (
    Expr,
    atan,
    cos,
    exp,
    log,
    maximum,
    minimum,
    operand,
    sign,
    sin,
    sqrt,
    tanh,
)
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value

# From here on x * x + 1 is x * x in the type, which must hold it; 2 ** 30 will do for all others.
_FAR = {DType.FLOAT_16: 2.0**7}


@ONNX.importer("Tan", versions=(7, 22))
def tan(op: OpContext) -> Value:
    """Emit sin(x) / cos(x)."""
    x = operand(op, 0)
    return (sin(x) / cos(x)).emit()


@ONNX.importer("Acos", versions=(7, 22))
def acos(op: OpContext) -> Value:
    """Emit 2 * atan(sqrt((1 - x) / (1 + x))); pi / 2 - asin(x) would lose its digits near 1."""
    x = operand(op, 0)
    return (atan(sqrt((1 - x) / (1 + x))) * 2).emit()


@ONNX.importer("Cosh", versions=(9, 22))
def cosh(op: OpContext) -> Value:
    """Emit (exp(x) + exp(-x)) / 2."""
    return _cosh(operand(op, 0)).emit()


@ONNX.importer("Sinh", versions=(9, 22))
def sinh(op: OpContext) -> Value:
    """Emit tanh(x) * cosh(x); (exp(x) - exp(-x)) / 2 would lose its digits near 0."""
    x = operand(op, 0)
    return (tanh(x) * _cosh(x)).emit()


def _cosh(x: Expr) -> Expr:
    return (exp(x) + exp(-x)) * 0.5


@ONNX.importer("Asinh", versions=(9, 22))
def asinh(op: OpContext) -> Value:
    """Emit log(|x| + sqrt(x * x + 1)) with the sign of x; far out the root is |x|."""
    x = operand(op, 0)
    size = abs(x)
    near = minimum(size, _FAR.get(x.dtype, 2.0**30))
    root = sqrt(near * near + 1)
    return (log(size + maximum(size, root)) * sign(x)).emit()


@ONNX.importer("Acosh", versions=(9, 22))
def acosh(op: OpContext) -> Value:
    """Emit log(x + sqrt(x - 1) * sqrt(x + 1)), in which nothing large is squared."""
    x = operand(op, 0)
    return log(x + sqrt(x - 1) * sqrt(x + 1)).emit()


@ONNX.importer("Atanh", versions=(9, 22))
def atanh(op: OpContext) -> Value:
    """Emit log((1 + x) / (1 - x)) / 2."""
    x = operand(op, 0)
    return (log((1 + x) / (1 - x)) * 0.5).emit()
