"""Trigonometric and hyperbolic functions without an op, as formulas of functions with one.

Each formula is chosen to be precise in float32: Tan, Acos, Sinh and Cosh are right to a few
roundings everywhere. There is no logarithm of 1 + x, so Asinh, Acosh and Atanh are off by about
1e-7 where they are small, however small that is. Limits, for simplicity: Sinh and Cosh are
infinite from half of the type's maximum on, Asinh and Acosh for such an x.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX

# From here on x * x + 1 is x * x in the type, which must hold it; 2 ** 30 will do for all others.
_FAR = {DType.FLOAT_16: 2.0**7}


def _inputs(op: OpContext, operands: tuple[Tensor | float, ...]) -> list[Tensor]:
    dtype = op.spec(0).dtype
    return [
        x if isinstance(x, Tensor) else op.static("number", np.asarray(x), dtype) for x in operands
    ]


def _step(op: OpContext, function: str, *operands: Tensor | float) -> Tensor:
    return op.step(function.lower(), f"ElementWise{function}", _inputs(op, operands))


def _emit(op: OpContext, function: str, *operands: Tensor | float) -> Tensor:
    return op.emit(f"ElementWise{function}", _inputs(op, operands))


@ONNX.importer("Tan", versions=(7, 22))
def tan(op: OpContext) -> Tensor:
    """Emit sin(x) / cos(x)."""
    x = op.tensor(0)
    return _emit(op, "Divide", _step(op, "Sin", x), _step(op, "Cos", x))


@ONNX.importer("Acos", versions=(7, 22))
def acos(op: OpContext) -> Tensor:
    """Emit 2 * atan(sqrt((1 - x) / (1 + x))); pi / 2 - asin(x) would lose its digits near 1."""
    x = op.tensor(0)
    quotient = _step(op, "Divide", _step(op, "Subtract", 1.0, x), _step(op, "Add", 1.0, x))
    angle = _step(op, "Atan", _step(op, "SquareRoot", quotient))
    return _emit(op, "Multiply", angle, 2.0)


@ONNX.importer("Cosh", versions=(9, 22))
def cosh(op: OpContext) -> Tensor:
    """Emit (exp(x) + exp(-x)) / 2."""
    return _emit(op, "Multiply", _exponentials(op), 0.5)


@ONNX.importer("Sinh", versions=(9, 22))
def sinh(op: OpContext) -> Tensor:
    """Emit tanh(x) * cosh(x); (exp(x) - exp(-x)) / 2 would lose its digits near 0."""
    slope = op.step("tanh", "Tanh", [op.tensor(0)])
    return _emit(op, "Multiply", slope, _step(op, "Multiply", _exponentials(op), 0.5))


def _exponentials(op: OpContext) -> Tensor:
    x = op.tensor(0)
    return _step(op, "Add", _step(op, "Exp", x), _step(op, "Exp", _step(op, "Neg", x)))


@ONNX.importer("Asinh", versions=(9, 22))
def asinh(op: OpContext) -> Tensor:
    """Emit log(|x| + sqrt(x * x + 1)) with the sign of x; far out the root is |x|."""
    x = op.tensor(0)
    size = _step(op, "Abs", x)
    near = _step(op, "Minimum", size, _FAR.get(x.dtype, 2.0**30))
    square = _step(op, "Multiply", near, near)
    root = _step(op, "SquareRoot", _step(op, "Add", square, 1.0))
    total = _step(op, "Add", size, _step(op, "Maximum", size, root))
    return _emit(op, "Multiply", _step(op, "Log", total), _step(op, "Sign", x))


@ONNX.importer("Acosh", versions=(9, 22))
def acosh(op: OpContext) -> Tensor:
    """Emit log(x + sqrt(x - 1) * sqrt(x + 1)), in which nothing large is squared."""
    x = op.tensor(0)
    roots = [
        _step(op, "SquareRoot", _step(op, function, x, 1.0)) for function in ("Subtract", "Add")
    ]
    return _emit(op, "Log", _step(op, "Add", x, _step(op, "Multiply", *roots)))


@ONNX.importer("Atanh", versions=(9, 22))
def atanh(op: OpContext) -> Tensor:
    """Emit log((1 + x) / (1 - x)) / 2."""
    x = op.tensor(0)
    quotient = _step(op, "Divide", _step(op, "Add", 1.0, x), _step(op, "Subtract", 1.0, x))
    return _emit(op, "Multiply", _step(op, "Log", quotient), 0.5)
