"""Elementwise functions of one tensor."""

from __future__ import annotations

from onnx import TensorProto

from dovetail_onnx.exporter._node import FLOATS, NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators._elementwise import Body, exporter, follow, one


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


for _name, _body in (
    ("ElementWiseAbs", one("Abs")),
    ("ElementWiseAsin", one("Asin")),
    ("ElementWiseAtan", one("Atan")),
    ("ElementWiseCeil", _whole("Ceil")),
    ("ElementWiseCos", one("Cos")),
    ("ElementWiseExp", one("Exp")),
    ("ElementWiseFloor", _whole("Floor")),
    ("ElementWiseLog", one("Log")),
    ("ElementWiseNeg", one("Neg")),
    ("ElementWiseNot", _not),
    ("ElementWiseRound", _whole("Round")),
    ("ElementWiseRsqrt", _rsqrt),
    ("ElementWiseSign", one("Sign")),
    ("ElementWiseSin", one("Sin")),
    ("ElementWiseSquareRoot", one("Sqrt")),
    # the only function without a single op
    ("ElementWiseUnary", one("Reciprocal")),
    ("Logit", _logit),
    ("IsNan", lambda e, x: e.add("IsNaN", [x], TensorProto.BOOL)),
):
    exports(_name)(exporter(_body))


@exports("IsInf")
def is_inf(e: NodeExport) -> None:
    """IsInf."""
    signs = {
        "detect_negative": int(e.op.detect_negative),
        "detect_positive": int(e.op.detect_positive),
    }
    follow(e, lambda e, x: e.add("IsInf", [x], TensorProto.BOOL, **signs))
