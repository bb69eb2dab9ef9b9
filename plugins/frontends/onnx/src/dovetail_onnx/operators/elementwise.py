"""Elementwise arithmetic."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer, Value
from dovetail_onnx.operators._table import ONNX


def _unary(op_type: str) -> Importer:
    return lambda op: op.emit(op_type, [op.tensor(0)])


def _binary(op_type: str) -> Importer:
    return lambda op: op.emit(op_type, [op.tensor(0), op.tensor(1)])


for _name, _op_type, _versions in (
    ("Abs", "ElementWiseAbs", (6, 13)),
    ("Ceil", "ElementWiseCeil", (6, 13)),
    ("Cos", "ElementWiseCos", (7, 22)),
    ("Exp", "ElementWiseExp", (6, 13)),
    ("Floor", "ElementWiseFloor", (6, 13)),
    ("Log", "ElementWiseLog", (6, 13)),
    ("Neg", "ElementWiseNeg", (6, 13)),
    ("Round", "ElementWiseRound", (11, 22)),
    ("Sign", "ElementWiseSign", (9, 13)),
    ("Sin", "ElementWiseSin", (7, 22)),
    ("Sqrt", "ElementWiseSquareRoot", (6, 13)),
):
    ONNX.importer(_name, versions=_versions)(_unary(_op_type))

for _name, _op_type, _later in (
    ("Add", "ElementWiseAdd", (7, 13, 14)),
    ("Sub", "ElementWiseSubtract", (7, 13, 14)),
    ("Mul", "ElementWiseMultiply", (7, 13, 14)),
    ("Div", "ElementWiseDivide", (7, 13, 14)),
):
    ONNX.importer(_name, versions=_later)(_binary(_op_type))


@ONNX.importer("Reciprocal", versions=(6, 13))
def reciprocal(op: OpContext) -> Tensor:
    """1 / x."""
    x = op.tensor(0)
    return op.emit("ElementWiseDivide", [op.static("one", np.asarray(1), x.dtype), x])


@ONNX.importer("Pow", versions=(7, 12, 13, 15))
def power(op: OpContext) -> Tensor:
    """ElementWisePower, the exponent in the base's type, which ONNX's result has."""
    base, exponent = op.tensor(0), op.spec(1)
    if exponent.dtype is base.dtype:
        return op.emit("ElementWisePower", [base, op.tensor(1)])
    known = op.constant(1)
    if known is not None:
        if not base.dtype.is_float and np.any(known != np.trunc(known)):
            raise op.refuse(
                "it raises integers to fractional powers", hint="cast the base to a float type"
            )
        return op.emit("ElementWisePower", [base, op.static("exponent", known, base.dtype)])
    if not base.dtype.is_float or DType.BFLOAT_16 in (base.dtype, exponent.dtype):
        raise op.refuse(
            f"its base is {base.dtype.name}, its exponent {exponent.dtype.name}",
            hint="cast both to one float type",
        )
    target = Spec(base.dtype, exponent.shape)
    return op.emit(
        "ElementWisePower", [base, op.step("exponent", "Cast", [op.tensor(1)], spec=target)]
    )


def _chained(op: OpContext, op_type: str) -> Value:
    """Applies an op of two inputs to all inputs, from the left."""
    if op.count == 1:
        return op.value(0)
    result = op.tensor(0)
    for i in range(1, op.count - 1):
        result = op.step(f"part{i}", op_type, [result, op.tensor(i)])
    return op.emit(op_type, [result, op.tensor(op.count - 1)])


@ONNX.importer("Sum", versions=(6, 8, 13))
def add_all(op: OpContext) -> Value:
    """A chain of ElementWiseAdd."""
    return _chained(op, "ElementWiseAdd")


@ONNX.importer("Max", versions=(6, 8, 12, 13))
def maximum(op: OpContext) -> Value:
    """A chain of ElementWiseMaximum."""
    return _chained(op, "ElementWiseMaximum")


@ONNX.importer("Min", versions=(6, 8, 12, 13))
def minimum(op: OpContext) -> Value:
    """A chain of ElementWiseMinimum."""
    return _chained(op, "ElementWiseMinimum")
