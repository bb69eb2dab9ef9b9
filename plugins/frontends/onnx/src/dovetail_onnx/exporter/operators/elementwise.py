"""Elementwise functions of two tensors, which broadcast."""

from __future__ import annotations

from dovetail_onnx.exporter._node import FLOATS, NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators._elementwise import pair_exporter, two


def _floor_div(e: NodeExport, a: str, b: str) -> str:
    """Write the floor of the rounded quotient; for integers, without the remainder."""
    if e.builder.types[a] in FLOATS:
        return e.add("Floor", [e.add("Div", [a, b])])
    rest = e.add("Mod", [a, b], fmod=0)
    return e.add("Div", [e.add("Sub", [a, rest]), b])


def _squared_difference(e: NodeExport, a: str, b: str) -> str:
    difference = e.add("Sub", [a, b])
    return e.add("Mul", [difference, difference])


for _name, _body in (
    ("ElementWiseAdd", two("Add")),
    ("ElementWiseDivide", two("Div")),
    ("ElementWiseFloorDiv", _floor_div),
    ("ElementWiseFmod", two("Mod", fmod=1)),
    ("ElementWiseMaximum", two("Max")),
    ("ElementWiseMinimum", two("Min")),
    ("ElementWiseMod", two("Mod", fmod=0)),
    ("ElementWiseMultiply", two("Mul")),
    ("ElementWisePower", two("Pow")),
    ("ElementWiseSquaredDifference", _squared_difference),
    ("ElementWiseSubtract", two("Sub")),
):
    exports(_name)(pair_exporter(_body))
