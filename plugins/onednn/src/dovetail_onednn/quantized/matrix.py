"""Products of matrices of stored integers."""

from __future__ import annotations

import math

from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import dense
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.products import WEIGHTS, integers_of, product_step
from dovetail_onednn.threads import threads_for

_BY_COLUMN = 0b10  # mask of the axes of (depth, units)


def fully_connected(call: KernelCall) -> Step | None:
    """Run FullyConnected; see `Kernel.make`."""
    units, depth = call.spec(WEIGHTS).shape
    return _by_one_matrix(call, depth, units, (1, depth))


def matmul(call: KernelCall) -> Step | None:
    """Run MatMul with one constant matrix; see `Kernel.make`."""
    matrix, transposed = call.spec(WEIGHTS).shape, bool(call.op.transpose_in1)
    if math.prod(matrix[:-2]) > 1 or call.op.transpose_in0:
        return None
    depth, units = matrix[:-3:-1] if transposed else matrix[-2:]
    return _by_one_matrix(call, depth, units, (1, depth) if transposed else (units, 1))


def _by_one_matrix(
    call: KernelCall, depth: int, units: int, strides: tuple[int, int]
) -> Step | None:
    """Multiply rows by one matrix, (depth, units) with these strides."""
    integers = integers_of(call, units)
    if integers is None:
        return None
    rows = math.prod(call.outputs[0].shape) // units
    matrix = MemoryDesc.strided((depth, units), strides, DataType.S8)
    source, target = dense((rows, depth)), dense((rows, units))
    operands = (
        source.of_type(integers.source),
        MemoryDesc.any(matrix.dims, DataType.S8),
        dense((1, units)) if integers.has_bias else None,
        target.of_type(integers.target),
    )
    fused = "".join(f" + {op}" for op in integers.fused.ops)
    description = Description(
        "matmul",
        (ENGINE, *operands),
        lambda: f"a {source.key} by {matrix.key} product of integers{fused}",
        integers.fused.ops,
        quantization=integers.quantization(_BY_COLUMN),
    )
    with threads_for(rows * depth * units), PrimitiveDesc(description) as desc:
        return product_step(call, desc, integers, matrix)
