"""Softmax and its relatives."""

from __future__ import annotations

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_opset.ops.softmax import MaskMode


@exports("Softmax", "LogSoftmax")
def softmax(e: NodeExport) -> None:
    """Write the operator of the same name along the axis in the value's order, of beta * x."""
    order = e.layout(0)
    op, _ = e.in_order(order)
    x = e.input(0, order)
    if op.beta != 1:
        x = e.add("Mul", [x, e.constant(op.beta, x)])
    e.put(e.add(e.node.op_type, [x], axis=op.axis), order)


@exports("MaskedSoftmax")
def masked_softmax(e: NodeExport) -> None:
    """Softmax of the sum with the mask."""
    if e.op.mode is not MaskMode.UNCOMPRESSED:
        raise e.unsupported("ONNX has no softmax of concatenated sequences")
    batch, channels = e.spec(1).shape
    x = e.input(0)
    mask = e.cast(e.flat(1, (batch, 1, 1, channels)), e.builder.types[x])
    e.put(e.add("Softmax", [e.add("Add", [x, mask])], axis=3))
