"""Elementwise arithmetic."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer
from dovetail_onnx.operators._broadcast import aligned
from dovetail_onnx.operators._formula import Expr, operand, sign, where
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value


def _unary(op_type: str) -> Importer:
    return lambda op: op.emit(op_type, [op.tensor(0)])


def _binary(op_type: str) -> Importer:
    return lambda op: op.emit(op_type, aligned(op))


for _name, _op_type, _versions in (
    ("Abs", "ElementWiseAbs", (6, 13)),
    ("Asin", "ElementWiseAsin", (7, 22)),
    ("Atan", "ElementWiseAtan", (7, 22)),
    ("Ceil", "ElementWiseCeil", (6, 13)),
    ("Cos", "ElementWiseCos", (7, 22)),
    ("Exp", "ElementWiseExp", (6, 13)),
    ("Floor", "ElementWiseFloor", (6, 13)),
    ("IsNaN", "IsNan", (9, 13, 20)),
    ("Log", "ElementWiseLog", (6, 13)),
    ("Neg", "ElementWiseNeg", (6, 13)),
    ("Round", "ElementWiseRound", (11, 22)),
    ("Sign", "ElementWiseSign", (9, 13)),
    ("Sin", "ElementWiseSin", (7, 22)),
    ("Sqrt", "ElementWiseSquareRoot", (6, 13)),
):
    ONNX.importer(_name, versions=_versions)(_unary(_op_type))

for _name, _op_type, _later in (
    ("Add", "ElementWiseAdd", (1, 6, 7, 13, 14)),
    ("Sub", "ElementWiseSubtract", (1, 6, 7, 13, 14)),
    ("Mul", "ElementWiseMultiply", (1, 6, 7, 13, 14)),
    ("Div", "ElementWiseDivide", (1, 6, 7, 13, 14)),
):
    ONNX.importer(_name, versions=_later)(_binary(_op_type))


@ONNX.importer("Reciprocal", versions=(6, 13))
def reciprocal(op: OpContext) -> Value:
    """1 / x."""
    return (1 / operand(op, 0)).emit()


@ONNX.importer("Pow", versions=(1, 7, 12, 13, 15))
def power(op: OpContext) -> Value:
    """ElementWisePower, the exponent in the base's type, which ONNX's result has."""
    base, exponent = op.tensor(0), op.spec(1)
    if exponent.dtype is base.dtype:
        return op.emit("ElementWisePower", aligned(op))
    known = op.constant(1)
    if known is not None:
        if not base.dtype.is_float and np.any(known != np.trunc(known)):
            raise op.unsupported(
                "unsupported fractional power of integers", hint="cast the base to a float type"
            )
        return op.emit("ElementWisePower", [base, op.static("exponent", known, base.dtype)])
    if not base.dtype.is_float and not _holds(base.dtype, exponent.dtype):
        # in float64, truncated
        wide = [operand(op, i).cast(DType.FLOAT_64) for i in (0, 1)]
        return (wide[0] ** wide[1]).cast(base.dtype).emit()
    if DType.BFLOAT_16 in (base.dtype, exponent.dtype):
        raise op.unsupported(
            f"unsupported base {base.dtype.name} with exponent {exponent.dtype.name}",
            hint="cast both to one float type",
        )
    return (operand(op, 0) ** operand(op, 1).cast(base.dtype)).emit()


def _holds(dtype: DType, other: DType) -> bool:
    """Return whether a type of integers has the values of another one; half may do for one size."""
    return other.is_int and other.bits <= dtype.bits and (dtype.is_signed or not other.is_signed)


@ONNX.importer("IsInf", versions=(10, 20))
def is_inf(op: OpContext) -> Tensor:
    """IsInf."""
    return op.emit(
        "IsInf",
        [op.tensor(0)],
        detect_negative=bool(op.attr.integer("detect_negative", 1)),
        detect_positive=bool(op.attr.integer("detect_positive", 1)),
    )


@ONNX.importer("Mod", versions=(10, 13, 28))
def modulo(op: OpContext) -> Value:
    """ElementWiseFmod, or ElementWiseMod for integers; a modulo of floats corrects Fmod's sign."""
    a, b = op.tensor(0), op.tensor(1)
    match op.attr.integer("fmod", 0):
        case 1:
            return op.emit("ElementWiseFmod", [a, b])
        case 0 if a.dtype.is_int:
            return op.emit("ElementWiseMod", [a, b])
        case 0 if op.version < 28:
            raise op.invalid(
                f"inputs are {a.dtype.name}, but attribute fmod is 0, which is for integers"
            )
        case 0:
            return _floored(operand(op, 0), operand(op, 1)).emit()
        case other:
            raise op.invalid(f"attribute fmod must be 0 or 1, got {other}")


def _floored(a: Expr, b: Expr) -> Expr:
    """Return a modulo of floats with the sign of b: fmod(a, b), plus b where the signs differ."""
    left = a.apply("Mod", b, fmod=1)
    return where(sign(left) * sign(b) < 0, left + b, left)


def _of_all(op: OpContext, op_type: str, count: int) -> Tensor:
    """Add steps that apply an op of two inputs to the first ones, from the left."""
    result = op.tensor(0)
    for i in range(1, count):
        result = op.step(f"part{i}", op_type, [result, op.tensor(i)])
    return result


def _chained(op: OpContext, op_type: str) -> Value:
    """Apply an op of two inputs to all inputs, from the left."""
    if op.count == 1:
        return op.value(0)
    most = _of_all(op, op_type, op.count - 1)
    return op.emit(op_type, [most, op.tensor(op.count - 1)])


@ONNX.importer("Mean", versions=(6, 8, 13))
def mean(op: OpContext) -> Value:
    """Emit a chain of ElementWiseAdd, and a division."""
    if op.count == 1:
        return op.value(0)
    return (Expr(op, _of_all(op, "ElementWiseAdd", op.count)) / op.count).emit()


@ONNX.importer("Sum", versions=(6, 8, 13))
def add_all(op: OpContext) -> Value:
    """Emit a chain of ElementWiseAdd."""
    return _chained(op, "ElementWiseAdd")


@ONNX.importer("Max", versions=(6, 8, 12, 13))
def maximum(op: OpContext) -> Value:
    """Emit a chain of ElementWiseMaximum."""
    return _chained(op, "ElementWiseMaximum")


@ONNX.importer("Min", versions=(6, 8, 12, 13))
def minimum(op: OpContext) -> Value:
    """Emit a chain of ElementWiseMinimum."""
    return _chained(op, "ElementWiseMinimum")
