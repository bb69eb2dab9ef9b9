"""Products of matrices of stored integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, ScaleOffset
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import ZERO_POINTS, Algorithm, Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import REAL, Eltwise, PostOp
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import Strided, aligned, dense, permuted, vector
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.floats import float_step
from dovetail_onednn.quantized.forms import (
    as_unsigned,
    by_depth,
    matrix_form,
    pairs_of,
    step_as_stored,
    step_on_copies,
    unpaired,
)
from dovetail_onednn.quantized.matrix_products import (
    BY_ROW,
    INNER_PRODUCT,
    matrix_desc,
    needs_data_zero,
    read_matrices,
    signed_matrices,
    signed_shift,
    stored_matrices,
)
from dovetail_onednn.quantized.parts import MOST_PARTS
from dovetail_onednn.quantized.products import (
    DATA,
    WEIGHTS,
    Integers,
    integers_of,
    product_step,
    split,
)
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import EXACT, TYPES, WORDS
from dovetail_onednn.quantized.word_matrices import matmul_of_words, one_matrix_of_words
from dovetail_onednn.quantized.words import is_of_words
from dovetail_onednn.steps import is_slow

_UNPACKED = "x64:gemm_s8u8"  # code that multiplies unsigned bytes by signed ones as they are stored
Sizes = tuple[int, int, int]  # rows, depth and units


def fully_connected(call: KernelCall) -> Step | None:
    """Run FullyConnected; see `Kernel.make`."""
    units, depth = call.spec(WEIGHTS).shape
    return by_one_matrix(call, depth, units, (1, depth))


def matmul(call: KernelCall) -> Step | None:
    """Run MatMul; see `Kernel.make`."""
    matrix, transposed = call.spec(WEIGHTS).shape, bool(call.op.transpose_in1)
    if math.prod(matrix[:-2]) > 1 or call.op.transpose_in0 or not call.has_data(WEIGHTS):
        return _batched(call)
    depth, units = matrix[:-3:-1] if transposed else matrix[-2:]
    return by_one_matrix(call, depth, units, (1, depth) if transposed else (units, 1))


def by_one_matrix(
    call: KernelCall, depth: int, units: int, strides: tuple[int, int]
) -> Step | None:
    """Multiply rows by one matrix of weights, (depth, units) with these strides."""
    rank = len(call.spec(WEIGHTS).shape)
    axis = rank - 1 if strides[1] == 1 else rank - 2
    if is_of_words(call):
        return one_matrix_of_words(call, (depth, units), strides)
    integers = integers_of(call, units, axis)
    if integers is None:
        return None
    rows = math.prod(call.outputs[0].shape) // units
    matrix = MemoryDesc.strided((depth, units), strides, DataType.S8)
    source, target = dense((rows, depth)), dense((rows, units))
    if integers.parts == 1 and library().has_vnni:
        is_row = rows == 1 and strides[0] == 1
        step = _of_one_row(call, integers, depth, units) if is_row else None
        return step or _in_bytes(call, integers, (rows, depth, units), strides[0] == 1)
    if step := _with_zero_point(call, integers, (source, matrix, target)):
        return step
    sizes, by_units = (rows, depth, units), strides[0] == 1

    def in_floats() -> Step | None:
        if not integers.is_exact_in_float:
            return None

        def describe(ops: tuple[PostOp, ...], is_dense: bool) -> PrimitiveDesc:
            return matrix_desc((source, MemoryDesc.any(matrix.dims), None, target), ops, REAL)

        operands = source, matrix.of_type(DataType.F32), target
        return float_step(call, integers, describe, operands)

    return (
        _in_pairs(call, integers, sizes, by_units)
        or _in_parts(call, integers, sizes, by_units)
        or in_floats()
    )


def _of_one_row(call: KernelCall, integers: Integers, depth: int, units: int) -> Step | None:
    """Return the step of one row of unsigned bytes by a matrix (units, depth), unpacked.

    Reading that is most of the time: 9216 x 4096 took 0.9 ms, packed 1.1, and 1.8 by code for AMX.
    None if the row has a zero point, or the library would use other code.
    """
    if integers.zero:
        return None
    fused, matrix = integers.fused, MemoryDesc.strided((units, depth), (depth, 1), DataType.S8)
    if fused.zero:  # the library has no zero points there
        shift = Eltwise(Algorithm.LINEAR, 1.0, float(fused.zero))
        integers = replace(integers, fused=replace(fused, ops=(*fused.ops, shift), zero=0))
    source, target = dense((1, depth)), dense((1, units)).of_type(integers.target)
    operands = (
        source.of_type(integers.source),
        matrix,
        vector(units) if integers.has_bias else None,
        target,
    )
    ops, quantization = integers.fused.ops, integers.quantization(BY_ROW)
    with matrix_desc(operands, ops, quantization, INNER_PRODUCT) as desc:
        if not desc.implementation.startswith(_UNPACKED):
            return None
        return product_step(call, desc, integers, matrix, BY_ROW)


def _in_bytes(call: KernelCall, integers: Integers, sizes: Sizes, by_units: bool) -> Step | None:
    form = matrix_form(sizes, by_units, (integers.source, integers.target))
    return step_as_stored(call, integers, form)


def _in_pairs(call: KernelCall, integers: Integers, sizes: Sizes, by_units: bool) -> Step | None:
    """Return the step with a copy of every other column, or none; see `pairs_of`."""
    steps = pairs_of(call, lambda levels: by_depth(levels, sizes[-1], by_units))
    if steps is None:
        return None
    if steps == (1,) and integers.source is DataType.U8:
        return _in_bytes(call, integers, sizes, by_units)
    return _on_copies(call, integers, sizes, by_units, steps, unpaired)


def _in_parts(call: KernelCall, integers: Integers, sizes: Sizes, by_units: bool) -> Step | None:
    """Return the step with a matrix that is a sum, each term for a copy of the source's columns."""
    parts = integers.parts
    if not 0 < parts <= MOST_PARTS:
        return None
    steps = (1,) * parts
    return _on_copies(call, integers, sizes, by_units, steps, lambda x: split(x, parts, 0))


def _on_copies(
    call: KernelCall,
    integers: Integers,
    sizes: Sizes,
    by_units: bool,
    steps: Sequence[int],
    spread: Callable[[Array], Array],
) -> Step | None:
    """Return the step of a product of copies of the columns.

    Args:
        call: The call of the kernel.
        integers: Its numbers.
        sizes: Rows, depth and units.
        by_units: Whether the matrix is stored as (units, depth).
        steps: The copies; see `copy_channels`.
        spread: As in `matrix_form`.
    """
    integers, (rows, depth, units) = as_unsigned(integers), sizes
    wide = rows, sum(depth // step for step in steps), units
    form = matrix_form(wide, by_units, (integers.source, integers.target), spread)
    return step_on_copies(call, integers, form, depth, steps)


def _batched(call: KernelCall) -> Step | None:
    """Multiply stacks of matrices, transposed by strides, broadcast by axes of size 1."""
    result = call.outputs[0].shape
    transposed = (call.op.transpose_in0, call.op.transpose_in1)
    source, weights = (_matrices(call, index, len(result), transposed[index]) for index in (0, 1))
    operands = source, weights, dense(result)
    if is_of_words(call):
        return matmul_of_words(call, operands)
    integers = integers_of(call, result[-1])
    if integers is None:
        return None
    return _with_zero_point(call, integers, operands) or _in_floats(call, integers, operands)


def _in_floats(
    call: KernelCall, integers: Integers, operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc]
) -> Step | None:
    """Return the step of two activations by float32 code; None if it would not be exact.

    Args:
        call: The call of the kernel.
        integers: Its numbers.
        operands: Dense descriptors of both activations and the result.
    """
    source, matrix, target = operands
    kind, spec = TYPES.get(call.spec(WEIGHTS).dtype), call.spec(WEIGHTS)
    if kind is None or not isinstance(spec.encoding, ScaleOffset) or integers.has_bias:
        return None
    zero = grid_of(spec)[1]
    farthest = math.prod(
        max(abs(end - z) for end in call.spec(i).dtype.stored_range())
        for i, z in ((DATA, integers.zero), (WEIGHTS, zero))
    )
    if farthest * source.dims[-1] >= EXACT or integers.fused.added is not None:
        return None
    chain: list[PostOp] = [Eltwise(Algorithm.LINEAR, float(integers.rescale.multiplier.item()))]
    chain += integers.fused.ops
    chain += [Eltwise(Algorithm.LINEAR, 1.0, float(integers.fused.zero))]
    with matrix_desc((source, matrix, None, target), tuple(chain), REAL) as desc:
        if is_slow(desc):
            return None
        stages = Stages(call)
        left, right = stages.room(source), stages.room(matrix)
        data = Argument(source.of_type(integers.source), read_matrices(call, DATA))
        stages.move(data, left, integers.zero)
        stages.move(stored_matrices(call, matrix), right, zero)
        arguments: dict[int, Argument] = {Arg.SOURCE: left, Arg.WEIGHTS: right}
        arguments[Arg.DESTINATION] = stages.room(target)
        stages.add(desc, arguments)
        result = Argument(target.of_type(integers.target), call.write(0))
        stages.move(arguments[Arg.DESTINATION], result)
    return stages.step()


def _matrices(call: KernelCall, index: int, rank: int, is_transposed: bool) -> MemoryDesc:
    """Describe a stack of matrices, dense or a transpose without a copy."""
    spec, layout, (*batch, row, column) = call.spec(index), call.layout(index), range(rank)
    axes = (*batch, column, row) if is_transposed else (*batch, row, column)
    form = permuted(aligned(spec.shape, rank), axes)
    if isinstance(layout, Strided) and spec.dtype not in WORDS:  # whose bytes are copied
        return layout.along(form).of_type(form.type)
    return form


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
    zero, signed = grid_of(spec)[1] - signed_shift(spec), matrix.of_type(DataType.S8)
    integers = replace(integers, gives_zero=zero != 0 and needs_data_zero())
    quantization = integers.quantization(0)
    if zero:
        zeros = (*quantization.zero_points, Arg.WEIGHTS)
        quantization = replace(quantization, zero_points=zeros)
    rank, has_data = len(target.dims), call.has_data(WEIGHTS)
    bias = dense(aligned((integers.units,), rank)) if integers.has_bias else None
    wanted = MemoryDesc.any(signed.dims, DataType.S8) if has_data else signed
    described = (source.of_type(integers.source), wanted, bias, target.of_type(integers.target))
    with matrix_desc(described, integers.fused.ops, quantization) as desc:
        if is_slow(desc):
            return None
        numbers = integers.numbers(0)
        if zero:
            numbers[ZERO_POINTS | Arg.WEIGHTS] = np.full(1, zero, np.int32)
        stages = Stages(call)
        arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
        arguments[Arg.SOURCE] = Argument(desc.desc(Arg.SOURCE), read_matrices(call, DATA))
        data = f"{integers.source.name} {integers.has_zero}"
        arguments[Arg.WEIGHTS] = signed_matrices(stages, call, desc, signed, data)
        arguments[Arg.DESTINATION] = Argument(desc.desc(Arg.DESTINATION), call.write(0))
        stages.add(desc, arguments)
    return stages.step()
