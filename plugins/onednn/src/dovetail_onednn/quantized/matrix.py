"""Products of matrices of stored integers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dovetail.ir import Array, ScaleOffset, Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import ZERO_POINTS, Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import REAL, PostOp, Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import OneDnnLayout, aligned, dense, permuted
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.floats import float_step
from dovetail_onednn.quantized.products import (
    DATA,
    WEIGHTS,
    Integers,
    integers_of,
    product_step,
)
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.quantized.words import is_of_words, words_step
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import is_slow
from dovetail_onednn.threads import threads_for

_UNSIGNED = 128  # half the range of a byte
_BY_COLUMN = 0b10  # mask of the axes of (depth, units)


def fully_connected(call: KernelCall) -> Step | None:
    """Run FullyConnected; see `Kernel.make`."""
    units, depth = call.spec(WEIGHTS).shape
    return _by_one_matrix(call, depth, units, (1, depth))


def matmul(call: KernelCall) -> Step | None:
    """Run MatMul; see `Kernel.make`."""
    matrix, transposed = call.spec(WEIGHTS).shape, bool(call.op.transpose_in1)
    if math.prod(matrix[:-2]) > 1 or call.op.transpose_in0 or not call.has_data(WEIGHTS):
        return _batched(call)
    depth, units = matrix[:-3:-1] if transposed else matrix[-2:]
    return _by_one_matrix(call, depth, units, (1, depth) if transposed else (units, 1))


def _by_one_matrix(
    call: KernelCall, depth: int, units: int, strides: tuple[int, int]
) -> Step | None:
    """Multiply rows by one matrix, (depth, units) with these strides."""
    rank = len(call.spec(WEIGHTS).shape)
    axis = rank - 1 if strides[1] == 1 else rank - 2
    if is_of_words(call):
        return _in_words(call, depth, units, strides)
    integers = integers_of(call, units, axis)
    if integers is None:
        return None
    rows = math.prod(call.outputs[0].shape) // units
    matrix = MemoryDesc.strided((depth, units), strides, DataType.S8)
    source, target = dense((rows, depth)), dense((rows, units))
    if integers.parts == 1 and library().has_vnni:
        types = source.of_type(integers.source), target.of_type(integers.target)
        bias = dense((1, units)) if integers.has_bias else None
        weights, fused = MemoryDesc.any(matrix.dims, DataType.S8), integers.fused.ops
        quantization = integers.quantization(_BY_COLUMN)
        with _described((types[0], weights, bias, types[1]), fused, quantization) as desc:
            return product_step(call, desc, integers, matrix, _BY_COLUMN)
    if step := _with_zero_point(call, integers, (source, matrix, target)):
        return step
    if not integers.is_exact_in_float:
        return None

    def describe(ops: tuple[PostOp, ...], is_dense: bool) -> PrimitiveDesc:
        return _described((source, MemoryDesc.any(matrix.dims), None, target), ops, REAL)

    return float_step(call, integers, describe, (source, matrix.of_type(DataType.F32), target))


def _in_words(call: KernelCall, depth: int, units: int, strides: tuple[int, int]) -> Step | None:
    rows = math.prod(call.outputs[0].shape) // units
    matrix = MemoryDesc.strided((depth, units), strides, DataType.S8)
    source, target, row = dense((rows, depth)), dense((rows, units)), dense((1, units))

    def describe(
        kind: DataType, ops: tuple[PostOp, ...], quantization: Quantization, has_bias: bool
    ) -> PrimitiveDesc:
        wanted, bias = MemoryDesc.any(matrix.dims, DataType.S8), row if has_bias else None
        return _described((source.of_type(kind), wanted, bias, target), ops, quantization)

    return words_step(call, describe, (source, matrix, target), _BY_COLUMN)


def _batched(call: KernelCall) -> Step | None:
    """Multiply stacks of matrices, transposed by strides, broadcast by axes of size 1."""
    result = call.outputs[0].shape
    integers = integers_of(call, result[-1])
    if integers is None:
        return None
    transposed = (call.op.transpose_in0, call.op.transpose_in1)
    source, weights = (
        _matrices(call.spec(index).shape, len(result), transposed[index]) for index in (0, 1)
    )
    return _with_zero_point(call, integers, (source, weights, dense(result)))


def _matrices(shape: Shape, rank: int, is_transposed: bool) -> MemoryDesc:
    """Describe a dense stack of matrices."""
    *batch, row, column = range(rank)
    axes = (*batch, column, row) if is_transposed else (*batch, row, column)
    return permuted(aligned(shape, rank), axes)


def _with_zero_point(
    call: KernelCall, integers: Integers, operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc]
) -> Step | None:
    """Return the step of a product with a matrix of bytes that have a zero point.

    The library subtracts it. Its matrices are signed: 128 is subtracted from unsigned bytes first.

    Args:
        call: The call of the kernel.
        integers: Its numbers.
        operands: Dense descriptors of source, matrix and result.
    """
    spec, added = call.spec(WEIGHTS), integers.fused.added
    kind, is_plain = TYPES.get(spec.dtype), isinstance(spec.encoding, ScaleOffset)
    if kind is None or not is_plain or added is not None or not library().has_vnni:
        return None
    source, matrix, target = operands
    shift = _UNSIGNED if kind is DataType.U8 else 0
    zero, signed = grid_of(spec)[1] - shift, matrix.of_type(DataType.S8)
    quantization = integers.quantization(0)
    if zero:
        zeros = (*quantization.zero_points, Arg.WEIGHTS)
        quantization = replace(quantization, zero_points=zeros)
    rank, has_data = len(target.dims), call.has_data(WEIGHTS)
    bias = dense(aligned((integers.units,), rank)) if integers.has_bias else None
    wanted = MemoryDesc.any(signed.dims, DataType.S8) if has_data else signed
    described = (source.of_type(integers.source), wanted, bias, target.of_type(integers.target))
    with _described(described, integers.fused.ops, quantization) as desc:
        if is_slow(desc):
            return None
        numbers = integers.numbers(0)
        if zero:
            numbers[ZERO_POINTS | Arg.WEIGHTS] = np.full(1, zero, np.int32)
        stages = Stages(call)
        arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
        arguments[Arg.SOURCE] = Argument(desc.desc(Arg.SOURCE), call.read(DATA))
        if has_data:
            layout = OneDnnLayout(desc.desc(Arg.WEIGHTS), signed)
            data = f"{integers.source.name} {bool(integers.zero)}"
            arguments[Arg.WEIGHTS] = _packed(call, layout, shift, data)
        else:
            arguments[Arg.WEIGHTS] = Argument(matrix.of_type(kind), call.read(WEIGHTS))
            if shift:
                room = stages.room(signed)
                stages.move(arguments[Arg.WEIGHTS], room, shift)
                arguments[Arg.WEIGHTS] = room
        arguments[Arg.DESTINATION] = Argument(desc.desc(Arg.DESTINATION), call.write(0))
        stages.add(desc, arguments)
    return stages.step()


def _packed(call: KernelCall, layout: OneDnnLayout, shift: int, data: str) -> Argument:
    """Return constant bytes, minus a number, in a layout that depends on the data, too."""

    def make(arrays: Arrays, _: object) -> Array:
        return pack(np.asarray(given(arrays[0]) - np.int16(shift), np.int8), layout)

    packed = call.read_packed(WEIGHTS, f"integer minus {shift} {data} {layout.key}", make, layout)
    return Argument(layout.desc, packed)


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
