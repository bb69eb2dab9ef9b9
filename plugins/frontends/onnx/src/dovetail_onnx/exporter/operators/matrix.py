"""Matrix products."""

from __future__ import annotations

import math

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports


@exports("MatMul")
def matmul(e: NodeExport) -> None:
    """MatMul, after Transpose of the inputs if needed, and Add for the bias."""
    a, b = (_matrix(e, i, t) for i, t in enumerate((e.op.transpose_in0, e.op.transpose_in1)))
    result = e.add("MatMul", [a, b])
    e.put(e.add("Add", [result, e.input(2)]) if e.has(2) else result)


@exports("FullyConnected")
def fully_connected(e: NodeExport) -> None:
    """Gemm for a matrix of rows; MatMul and Add if more dimensions are kept."""
    x, shape, features = e.spec(0).shape, e.out.shape, e.spec(1).shape[1]
    if len(shape) > 2:
        result = e.add("MatMul", [e.input(0), e.input(1, (1, 0))])
        e.put(e.add("Add", [result, e.input(2)]) if e.has(2) else result)
        return
    rows = (math.prod(shape[:-1]), features)
    inputs = [e.input(0) if x == rows else e.flat(0, rows), e.input(1), e.optional(2)]
    result = e.add("Gemm", inputs, transB=1)
    e.put(result if len(shape) == 2 else e.reshape(result, shape))


def _matrix(e: NodeExport, i: int, is_transposed: bool) -> str:
    axes = list(range(len(e.spec(i).shape)))
    if is_transposed:
        axes[-2:] = axes[:-3:-1]
    return e.input(i, axes)
