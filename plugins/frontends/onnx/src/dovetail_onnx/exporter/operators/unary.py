"""Elementwise functions of one tensor."""

from __future__ import annotations

from onnx import TensorProto

from dovetail_onnx.exporter._node import FLOATS, NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators._elementwise import Body, exporter, follow, one
from dovetail_opset.ops.unary import Unary


def _whole(op_type: str) -> Body:
    """Return the body that rounds: integers are whole already."""
    return lambda e, x: e.add(op_type if e.builder.types[x] in FLOATS else "Identity", [x])


def _not(e: NodeExport, x: str) -> str:
    return e.add("Not", [e.cast(x, TensorProto.BOOL)])


def _rsqrt(e: NodeExport, x: str) -> str:
    return e.add("Reciprocal", [e.add("Sqrt", [x])])


def _logit(e: NodeExport, x: str) -> str:
    rest = e.add("Sub", [e.constant(1, x), x])
    return e.add("Log", [e.add("Div", [x, rest])])


_BODIES: dict[Unary, Body] = {
    Unary.ABS: one("Abs"),
    Unary.ASIN: one("Asin"),
    Unary.ATAN: one("Atan"),
    Unary.CEIL: _whole("Ceil"),
    Unary.COS: one("Cos"),
    Unary.EXP: one("Exp"),
    Unary.FLOOR: _whole("Floor"),
    Unary.LOG: one("Log"),
    Unary.NEG: one("Neg"),
    Unary.NOT: _not,
    Unary.RECIPROCAL: one("Reciprocal"),
    Unary.ROUND: _whole("Round"),
    Unary.RSQRT: _rsqrt,
    Unary.SIGN: one("Sign"),
    Unary.SIN: one("Sin"),
    Unary.SQRT: one("Sqrt"),
}

for _operation, _name in (
    (Unary.ABS, "ElementWiseAbs"),
    (Unary.ASIN, "ElementWiseAsin"),
    (Unary.ATAN, "ElementWiseAtan"),
    (Unary.CEIL, "ElementWiseCeil"),
    (Unary.COS, "ElementWiseCos"),
    (Unary.EXP, "ElementWiseExp"),
    (Unary.FLOOR, "ElementWiseFloor"),
    (Unary.LOG, "ElementWiseLog"),
    (Unary.NEG, "ElementWiseNeg"),
    (Unary.NOT, "ElementWiseNot"),
    (Unary.ROUND, "ElementWiseRound"),
    (Unary.RSQRT, "ElementWiseRsqrt"),
    (Unary.SIGN, "ElementWiseSign"),
    (Unary.SIN, "ElementWiseSin"),
    (Unary.SQRT, "ElementWiseSquareRoot"),
):
    exports(_name)(exporter(_BODIES[_operation]))

exports("Logit")(exporter(_logit))
exports("IsNan")(exporter(lambda e, x: e.add("IsNaN", [x], TensorProto.BOOL)))


@exports("ElementWiseUnary")
def unary(e: NodeExport) -> None:
    """Write the function that the op's number selects."""
    follow(e, _BODIES[e.op.operation])


@exports("IsInf")
def is_inf(e: NodeExport) -> None:
    """IsInf."""
    signs = {
        "detect_negative": int(e.op.detect_negative),
        "detect_positive": int(e.op.detect_positive),
    }
    follow(e, lambda e, x: e.add("IsInf", [x], TensorProto.BOOL, **signs))
