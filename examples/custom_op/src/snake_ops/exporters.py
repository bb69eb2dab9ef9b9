"""The exporter of the op `Snake` to ONNX: the operator of the domain `com.example.audio`."""

from __future__ import annotations

from dovetail_onnx.exporter import NodeExport, OpExporters
from snake_ops.ops import PACKAGE

TABLE = OpExporters(PACKAGE.name)


@TABLE.exports("Snake")
def snake(e: NodeExport) -> None:
    """Write Snake in the layout of x, to which alpha is aligned."""
    order = e.layout(0)
    inputs = [e.input(0, order), e.aligned(1, order)]
    (y,) = e.add_custom("com.example.audio", "Snake", inputs)
    e.put(y, order)
