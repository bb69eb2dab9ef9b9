"""Comparisons, logic and selection between two tensors."""

from __future__ import annotations

from onnx import TensorProto

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators._elementwise import pair_exporter
from dovetail_onnx.exporter.operators.elementwise import BODIES, LOGIC
from dovetail_opset.ops.binary import Binary

for _operation, _name in (
    (Binary.AND, "ElementWiseAnd"),
    (Binary.EQUAL, "ElementWiseEqual"),
    (Binary.GREATER, "ElementWiseGreater"),
    (Binary.GREATER_EQUAL, "ElementWiseGreaterEqual"),
    (Binary.LESS, "ElementWiseLess"),
    (Binary.LESS_EQUAL, "ElementWiseLessEqual"),
    (Binary.NOT_EQUAL, "ElementWiseNotEqual"),
    (Binary.OR, "ElementWiseOr"),
    (Binary.XOR, "ElementWiseXor"),
):
    _kind = TensorProto.BOOL if _operation in LOGIC else None
    exports(_name)(pair_exporter(BODIES[_operation], kind=_kind))


@exports("ElementWiseSelect")
def select(e: NodeExport) -> None:
    """Where."""
    order = e.layout(1, 2)
    condition = e.cast(e.aligned(0, order), TensorProto.BOOL)
    a, b = (e.aligned(i, order) for i in (1, 2))
    e.put(e.add("Where", [condition, a, b], e.builder.types[a]), order)
