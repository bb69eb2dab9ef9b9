"""Elementwise functions of two tensors, which broadcast."""

from __future__ import annotations

from onnx import TensorProto

from dovetail_onnx.exporter._node import FLOATS, NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators._elementwise import (
    PairBody,
    follow_pair,
    pair_exporter,
    question,
    two,
)
from dovetail_opset.ops.binary import Binary


def _floor_div(e: NodeExport, a: str, b: str) -> str:
    """Write the floor of the rounded quotient; for integers, without the remainder."""
    if e.builder.types[a] in FLOATS:
        return e.add("Floor", [e.add("Div", [a, b])])
    rest = e.add("Mod", [a, b], fmod=0)
    return e.add("Div", [e.add("Sub", [a, rest]), b])


def _squared_difference(e: NodeExport, a: str, b: str) -> str:
    difference = e.add("Sub", [a, b])
    return e.add("Mul", [difference, difference])


def _not_equal(e: NodeExport, a: str, b: str) -> str:
    return e.add("Not", [e.add("Equal", [a, b], TensorProto.BOOL)])


BODIES: dict[Binary, PairBody] = {
    Binary.ADD: two("Add"),
    Binary.AND: two("And"),
    Binary.DIVIDE: two("Div"),
    Binary.EQUAL: question("Equal"),
    Binary.FLOOR_DIV: _floor_div,
    Binary.FMOD: two("Mod", fmod=1),
    Binary.GREATER: question("Greater"),
    Binary.GREATER_EQUAL: question("GreaterOrEqual"),
    Binary.LESS: question("Less"),
    Binary.LESS_EQUAL: question("LessOrEqual"),
    Binary.MAXIMUM: two("Max"),
    Binary.MINIMUM: two("Min"),
    Binary.MOD: two("Mod", fmod=0),
    Binary.MULTIPLY: two("Mul"),
    Binary.NOT_EQUAL: _not_equal,
    Binary.OR: two("Or"),
    Binary.POWER: two("Pow"),
    Binary.SQUARED_DIFFERENCE: _squared_difference,
    Binary.SUBTRACT: two("Sub"),
    Binary.XOR: two("Xor"),
}
# Operators with bool inputs.
LOGIC = (Binary.AND, Binary.OR, Binary.XOR)

for _operation, _name in (
    (Binary.ADD, "ElementWiseAdd"),
    (Binary.DIVIDE, "ElementWiseDivide"),
    (Binary.FLOOR_DIV, "ElementWiseFloorDiv"),
    (Binary.FMOD, "ElementWiseFmod"),
    (Binary.MAXIMUM, "ElementWiseMaximum"),
    (Binary.MINIMUM, "ElementWiseMinimum"),
    (Binary.MOD, "ElementWiseMod"),
    (Binary.MULTIPLY, "ElementWiseMultiply"),
    (Binary.POWER, "ElementWisePower"),
    (Binary.SQUARED_DIFFERENCE, "ElementWiseSquaredDifference"),
    (Binary.SUBTRACT, "ElementWiseSubtract"),
):
    exports(_name)(pair_exporter(BODIES[_operation]))


@exports("ElementWiseBinary")
def binary(e: NodeExport) -> None:
    """Write the function that the op's number selects."""
    kind = TensorProto.BOOL if e.op.operation in LOGIC else None
    follow_pair(e, BODIES[e.op.operation], kind=kind)
