"""Products of matrices of stored integers."""

from __future__ import annotations

import math

from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import DataType
from dovetail_onednn.attributes import REAL, PostOp, Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import dense
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.floats import float_step
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
    rank = len(call.spec(WEIGHTS).shape)
    axis = rank - 1 if strides[1] == 1 else rank - 2
    integers = integers_of(call, units, axis)
    if integers is None:
        return None
    rows = math.prod(call.outputs[0].shape) // units
    matrix = MemoryDesc.strided((depth, units), strides, DataType.S8)
    source, target = dense((rows, depth)), dense((rows, units))
    if integers.are_bytes:
        types = source.of_type(integers.source), target.of_type(integers.target)
        bias = dense((1, units)) if integers.has_bias else None
        weights, fused = MemoryDesc.any(matrix.dims, DataType.S8), integers.fused.ops
        quantization = integers.quantization(_BY_COLUMN)
        with _described((types[0], weights, bias, types[1]), fused, quantization) as desc:
            return product_step(call, desc, integers, matrix)
    if not integers.is_exact_in_float:
        return None

    def describe(ops: tuple[PostOp, ...], is_dense: bool) -> PrimitiveDesc:
        return _described((source, MemoryDesc.any(matrix.dims), None, target), ops, REAL)

    return float_step(call, integers, describe, (source, matrix.of_type(DataType.F32), target))


def _described(
    operands: tuple[MemoryDesc | None, ...], ops: tuple[PostOp, ...], quantization: Quantization
) -> PrimitiveDesc:
    """Describe a product of source and weights, with perhaps a bias, to the result."""
    source, weights, _, target = operands
    if source is None or weights is None or target is None:
        raise AssertionError("a product without an operand")
    count = math.prod(target.dims) * source.dims[-1]
    fused = "".join(f" + {op}" for op in ops)
    description = Description(
        "matmul",
        (ENGINE, *operands),
        lambda: f"a product of integers{fused}: {source.key} by {weights.dims}",
        ops,
        quantization=quantization,
    )
    with threads_for(count):
        return PrimitiveDesc(description)
