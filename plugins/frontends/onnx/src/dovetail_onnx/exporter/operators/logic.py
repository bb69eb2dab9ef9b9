"""Comparisons, logic and selection between two tensors."""

from __future__ import annotations

from onnx import TensorProto

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators._elementwise import pair_exporter, question, two


def _not_equal(e: NodeExport, a: str, b: str) -> str:
    return e.add("Not", [e.add("Equal", [a, b], TensorProto.BOOL)])


for _name, _body in (
    ("ElementWiseEqual", question("Equal")),
    ("ElementWiseGreater", question("Greater")),
    ("ElementWiseGreaterEqual", question("GreaterOrEqual")),
    ("ElementWiseLess", question("Less")),
    ("ElementWiseLessEqual", question("LessOrEqual")),
    ("ElementWiseNotEqual", _not_equal),
):
    exports(_name)(pair_exporter(_body))
for _name, _operator in (
    ("ElementWiseAnd", "And"),
    ("ElementWiseOr", "Or"),
    ("ElementWiseXor", "Xor"),
):
    exports(_name)(pair_exporter(two(_operator), kind=TensorProto.BOOL))


@exports("ElementWiseSelect")
def select(e: NodeExport) -> None:
    """Where."""
    order = e.layout(1, 2)
    condition = e.cast(e.aligned(0, order), TensorProto.BOOL)
    a, b = (e.aligned(i, order) for i in (1, 2))
    e.put(e.add("Where", [condition, a, b], e.builder.types[a]), order)
