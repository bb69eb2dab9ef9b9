"""Products of matrices where there are 16 bits: rows by a constant matrix, or two activations.

Of these there is a product for each pair of bytes. The sums are added in float32 in the order of
the definition: each primitive after the first one adds to its scratchpad.
"""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import ScaleOffset
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS, passes, rescale_of_products
from dovetail_numpy.integer.products import accumulator_bound, channel_scales
from dovetail_onednn._api import SCALES, ZERO_POINTS, Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import REAL, PostOp, Quantization, Sum
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense, vector
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.forms import BY_ROW, INNER_PRODUCT, Form, matrix_desc, matrix_form
from dovetail_onednn.quantized.parts import MOST_PARTS
from dovetail_onednn.quantized.products import BIAS, DATA, LARGEST, WEIGHTS, split
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import WordBytes, byte_zero, ending, step_of_words
from dovetail_onednn.quantized.words import Words, step_of_bytes, step_of_floats, words_of
from dovetail_onednn.steps import is_slow


def one_matrix_of_words(
    call: KernelCall, shape: tuple[int, int], strides: tuple[int, int]
) -> Step | None:
    """Return the step of rows of 16 bits by one constant matrix; None without exact, fast code.

    Args:
        call: The call of the kernel.
        shape: Depth and units of the matrix.
        strides: Its strides.
    """
    words = words_of(call)
    if words is None:
        return None
    depth, units = shape
    rows = math.prod(call.outputs[0].shape) // units
    target = dense((rows, units))

    def of_bytes() -> Step | None:
        if words.parts > MOST_PARTS:
            return None
        by_units = strides[0] == 1
        if rows == 1 and by_units and _reads_unpacked(call, words):
            return step_of_bytes(call, words, _form_of_one_row(shape))
        sizes, types = (rows, depth * words.parts, units), (DataType.U8, DataType.F32)
        form = matrix_form(sizes, by_units, types, lambda x: split(x, words.parts, 0))
        return step_of_bytes(call, words, form)

    def of_floats() -> Step | None:
        if not words.is_exact_in_float:
            return None
        source, matrix = dense((rows, depth)), MemoryDesc.strided(shape, strides)

        def described(ops: tuple[PostOp, ...], is_dense: bool) -> PrimitiveDesc:
            return matrix_desc((source, MemoryDesc.any(matrix.dims), None, target), ops, REAL)

        return step_of_floats(call, words, described, (source, matrix, target))

    return of_bytes() or of_floats()


def _form_of_one_row(shape: tuple[int, int]) -> Form:
    """Return the form of one row by an unpacked matrix (units, depth); see `_reads_unpacked`."""
    depth, units = shape
    source, target = dense((1, depth)).of_type(DataType.U8), dense((1, units))
    plain = MemoryDesc.strided((units, depth), (depth, 1), DataType.S8)

    def describe(
        ops: tuple[PostOp, ...], quantization: Quantization, has_bias: bool
    ) -> PrimitiveDesc:
        bias = vector(units) if has_bias else None
        return matrix_desc((source, plain, bias, target), ops, quantization, INNER_PRODUCT)

    return Form(describe, source, plain, target, 1, BY_ROW, lambda levels: split(levels, 1, -1))


def _reads_unpacked(call: KernelCall, words: Words) -> bool:
    """Return whether the library has fast code for unpacked weights: of data without zero points.

    See `_of_one_row` of `matrix`: the same holds for both bytes.
    """
    spec = call.spec(DATA)
    zeros = [byte_zero(spec, each.data_shift) for each in words.sums]
    return library().has_vnni and words.parts == 1 and not any(zeros)


def matmul_of_words(
    call: KernelCall, operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc]
) -> Step | None:
    """Return the step of two tensors of 16 bits; None if the library has no exact, fast code.

    Args:
        call: The call of the kernel.
        operands: Dense descriptors of both tensors and the result.
    """
    source, matrix, target = operands
    if not _is_usual(call):
        return None
    view = call.head
    rescale, sums = rescale_of_products(view, None, channel_scales(view)), passes(view)
    source, matrix = source.of_type(DataType.U8), matrix.of_type(DataType.S8)
    zeros, descs = [], []
    for each in sums:
        ops: list[PostOp] = [] if each is sums[0] else [Sum(1.0, DataType.F32)]
        ops += ending(call, rescale) if each is sums[-1] else []
        found = {
            Arg.SOURCE: byte_zero(call.spec(DATA), each.data_shift),
            Arg.WEIGHTS: byte_zero(call.spec(WEIGHTS), each.weights_shift, is_signed=True),
        }
        zeros.append({arg: zero for arg, zero in found.items() if zero})
        quantization = Quantization(((Arg.WEIGHTS, 0),), tuple(zeros[-1]))
        descs.append(matrix_desc((source, matrix, None, target), tuple(ops), quantization))
    if any(map(is_slow, descs)):
        return None
    stages = Stages(call)
    data, weights = WordBytes(call, DATA), WordBytes(call, WEIGHTS, is_signed=True)
    total = stages.room(target)
    for each, own, desc in zip(sums, zeros, descs, strict=True):
        numbers = {SCALES | Arg.WEIGHTS: each.multiplier.reshape(1)}
        numbers |= {ZERO_POINTS | arg: np.full(1, zero, np.int32) for arg, zero in own.items()}
        arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
        arguments[Arg.SOURCE] = data.argument(source, each.data_shift)
        arguments[Arg.WEIGHTS] = weights.argument(matrix, each.weights_shift)
        arguments[Arg.DESTINATION] = Argument(desc.desc(Arg.DESTINATION), total.value)
        stages.add(desc, arguments)
    return step_of_words(call, stages, [data, weights], total)


def _is_usual(call: KernelCall) -> bool:
    """Return whether both tensors have 16 bits and one scale, and sums fit 32 bits."""
    view, out = call.head, call.outputs[0].spec
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    if not library().has_vnni or DEFINITIONS.of(view) is None or call.has(BIAS):
        return False
    if any(t.kind.is_updateable or 0 in t.shape for t in tensors):
        return False
    inputs = call.spec(DATA), call.spec(WEIGHTS)
    if any(s.dtype not in WORDS or not isinstance(s.encoding, ScaleOffset) for s in inputs):
        return False
    multipliers = [each.multiplier for each in passes(view)]
    are_finite = all(n.size == 1 and bool(np.isfinite(n).all()) for n in multipliers)
    return out.dtype in WORDS | TYPES.keys() and are_finite and accumulator_bound(view) <= LARGEST
