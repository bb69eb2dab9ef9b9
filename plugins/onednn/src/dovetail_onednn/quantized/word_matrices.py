"""Products of matrices where data have 16 bits: rows by a constant matrix, and all others.

Of these there is a product for each pair of bytes. The sums are added in float32 in the order of
the definition: each primitive after the first one adds to its scratchpad.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from dovetail.ir import Array, AxisScaleOffset, ScaleOffset, Spec
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS, Pass, Rescale, passes, rescale_of_products
from dovetail_numpy.integer.products import accumulator_bound, channel_scales
from dovetail_onednn._api import SCALES, ZERO_POINTS, Arg, BinaryAlgorithm, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import REAL, Binary, PostOp, Quantization, Sum, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import aligned, dense, vector
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.forms import Form, matrix_form
from dovetail_onednn.quantized.matrix_products import (
    BY_ROW,
    INNER_PRODUCT,
    matrix_desc,
    needs_data_zero,
    signed_matrices,
    signed_shift,
    stored_matrices,
)
from dovetail_onednn.quantized.parts import MOST_PARTS
from dovetail_onednn.quantized.products import BIAS, DATA, LARGEST, WEIGHTS, split
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import EXACT, TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import (
    WordBytes,
    byte_zero,
    ending,
    step_of_words,
    zero_of,
)
from dovetail_onednn.quantized.words import (
    Words,
    step_of_bytes,
    step_of_floats,
    summed,
    words_of,
)
from dovetail_onednn.steps import is_slow

Operands = tuple[MemoryDesc, MemoryDesc, MemoryDesc]  # data, matrices and result, float32


def one_matrix_of_words(
    call: KernelCall, shape: tuple[int, int], strides: tuple[int, int]
) -> Step | None:
    """Return the step of rows of 16 bits by one constant matrix; None without exact, fast code.

    Args:
        call: The call of the kernel.
        shape: Depth and units of the matrix.
        strides: Its strides.
    """
    words, (depth, units) = words_of(call), shape
    rows = math.prod(call.outputs[0].shape) // units
    source, target = dense((rows, depth)), dense((rows, units))
    matrix = MemoryDesc.strided(shape, strides)
    if words is None or call.spec(WEIGHTS).dtype in WORDS:
        step = matmul_of_words(call, (source, matrix, target))
        if words is None or step is not None:
            return step

    def of_bytes() -> Step | None:
        if words.most_parts > MOST_PARTS:
            return None
        by_units, types = strides[0] == 1, (DataType.U8, DataType.F32)
        if rows == 1 and by_units and _reads_unpacked(call, words):
            return step_of_bytes(call, words, lambda _: _form_of_one_row(shape))

        def form_of(parts: int) -> Form:
            sizes = rows, depth * parts, units
            return matrix_form(sizes, by_units, types, lambda x: split(x, parts, 0))

        return step_of_bytes(call, words, form_of)

    def of_floats() -> Step | None:
        if not words.is_exact_in_float:
            return None

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
    return library().has_vnni and words.most_parts == 1 and not any(zeros)


def matmul_of_words(call: KernelCall, operands: Operands) -> Step | None:
    """Return the step of data of 16 bits by matrices of 16 or 8 bits, constant or not.

    None if the library has no exact, fast code.

    Args:
        call: The call of the kernel.
        operands: Descriptors of the data, the matrices and the result.
    """
    products = _Products.of(call, operands)
    if products is None:
        return None
    return products.in_bytes() if library().has_vnni else products.in_floats()


class _Products(msgspec.Struct, frozen=True):
    """A product of 16-bit data and matrices with one zero point.

    Attributes:
        call: The call of the kernel.
        source, matrix, target: Descriptors of data, matrices and result, float32.
        sums: Those of pairs of bytes, in the order of addition.
        rescale: Bias, and how sums become stored integers of the result.
        is_exact_in_float: Whether float32 holds every partial sum.
    """

    call: KernelCall
    source: MemoryDesc
    matrix: MemoryDesc
    target: MemoryDesc
    sums: list[Pass]
    rescale: Rescale
    is_exact_in_float: bool

    @classmethod
    def of(cls, call: KernelCall, operands: Operands) -> _Products | None:
        """Return the product of a call; None if the library cannot compute the same bits."""
        view, out, weights = call.head, call.outputs[0].spec, call.spec(WEIGHTS)
        tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
        if DEFINITIONS.of(view) is None or call.has(BIAS) != (call.static(BIAS) is not None):
            return None
        if any(t.kind.is_updateable or 0 in t.shape for t in tensors):
            return None
        is_usual = {weights.dtype, out.dtype} <= WORDS | TYPES.keys()
        if not is_usual or not _has_one_zero(weights):
            return None
        sums, bound, sizes = passes(view), accumulator_bound(view), (1, out.shape[-1])
        rescale = rescale_of_products(view, call.static(BIAS), channel_scales(view))
        numbers = [rescale.bias, *(each.multiplier for each in sums)]
        fit = all(n.size in sizes and bool(np.isfinite(n).all()) for n in numbers)
        return (
            cls(call, *operands, sums, rescale, bound < EXACT) if fit and bound <= LARGEST else None
        )

    @property
    def has_words(self) -> bool:
        """True if the matrices have 16 bits."""
        return self.call.spec(WEIGHTS).dtype in WORDS

    @property
    def per_unit(self) -> MemoryDesc:
        """Describes a number for each column."""
        return dense(aligned(self.target.dims[-1:], len(self.target.dims)))

    @property
    def bias(self) -> Array | None:
        """A number for each column, or None."""
        numbers = self.rescale.bias.reshape(-1)
        return np.broadcast_to(numbers, self.target.dims[-1]) if self.call.has(BIAS) else None

    def zeros(self, each: Pass, *, are_signed: bool) -> dict[int, int]:
        """Return the zero points of the bytes of data and matrices, where the library needs them.

        Args:
            each: The sum.
            are_signed: Whether the bytes of the matrices are read as signed ones.
        """
        data, weights = self.call.spec(DATA), self.call.spec(WEIGHTS)
        found: dict[int, int] = {Arg.SOURCE: byte_zero(data, each.data_shift)}
        if self.has_words:
            zero = byte_zero(weights, each.weights_shift, is_signed=are_signed)
        else:
            zero = zero_of(weights) - (signed_shift(weights) if are_signed else 0)
        found |= {Arg.WEIGHTS: zero}
        needs_both = are_signed and zero != 0 and needs_data_zero()
        return {arg: n for arg, n in found.items() if n or needs_both}

    def in_bytes(self) -> Step | None:
        """Return the step by code for bytes; None if the library only has generic code."""
        call, bias = self.call, self.bias
        source, matrix = self.source.of_type(DataType.U8), self.matrix.of_type(DataType.S8)
        is_packed = call.has_data(WEIGHTS) and not self.has_words
        wanted = MemoryDesc.any(matrix.dims, DataType.S8) if is_packed else matrix
        zeros = [self.zeros(each, are_signed=True) for each in self.sums]
        descs = []
        for each, own in zip(self.sums, zeros, strict=True):
            is_first, is_last = each is self.sums[0], each is self.sums[-1]
            ops: list[PostOp] = [] if is_first else [Sum(1.0, DataType.F32)]
            ops += ending(call, self.rescale) if is_last else []
            own_bias = self.per_unit if is_first and bias is not None else None
            mask = 0 if each.multiplier.size == 1 else 1 << (len(self.target.dims) - 1)
            quantization = Quantization(((Arg.WEIGHTS, mask),), tuple(own))
            described = source, wanted, own_bias, self.target
            descs.append(matrix_desc(described, tuple(ops), quantization))
        if any(map(is_slow, descs)):
            return None
        stages, data = Stages(call), WordBytes(call, DATA)
        words = WordBytes(call, WEIGHTS, is_signed=True) if self.has_words else None
        total, packed = stages.room(self.target), {}
        for each, own, desc in zip(self.sums, zeros, descs, strict=True):
            numbers = {SCALES | Arg.WEIGHTS: each.multiplier.reshape(-1)}
            numbers |= {ZERO_POINTS | arg: np.full(1, zero, np.int32) for arg, zero in own.items()}
            if bias is not None and each is self.sums[0]:
                numbers[Arg.BIAS] = bias
            arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
            arguments[Arg.SOURCE] = data.argument(source, each.data_shift)
            if words is not None:
                arguments[Arg.WEIGHTS] = words.argument(matrix, each.weights_shift)
            else:
                form = f"of words {desc.desc(Arg.WEIGHTS).key} {Arg.SOURCE in own}"
                if form not in packed:
                    packed[form] = signed_matrices(stages, call, desc, matrix, form)
                arguments[Arg.WEIGHTS] = packed[form]
            arguments[Arg.DESTINATION] = Argument(desc.desc(Arg.DESTINATION), total.value)
            stages.add(desc, arguments)
        return step_of_words(call, stages, [data, *([words] if words else [])], total)

    def in_floats(self) -> Step | None:
        """Return the step by float32 code; None if it would not be exact, or is generic."""
        if not self.is_exact_in_float:
            return None
        call, bias = self.call, self.bias
        terms = [[(BinaryAlgorithm.MULTIPLY, each.multiplier)] for each in self.sums]
        if bias is not None:
            terms[0].append((BinaryAlgorithm.ADD, bias))
        chains = [tuple(Binary(kind, self.per_unit) for kind, _ in each) for each in terms]
        operands = self.source, self.matrix, None, self.target
        descs = [matrix_desc(operands, ops, REAL) for ops in chains]
        if any(map(is_slow, descs)):
            return None
        stages, data = Stages(call), WordBytes(call, DATA)
        words = WordBytes(call, WEIGHTS) if self.has_words else None
        levels = self._levels(stages, data, words)
        results = []
        for each, desc, ops, values in zip(self.sums, descs, chains, terms, strict=True):
            zeros = self.zeros(each, are_signed=False)
            arguments: dict[int, Argument] = {
                arg: levels(arg, shift, zeros.get(arg, 0))
                for arg, shift in (
                    (Arg.SOURCE, each.data_shift),
                    (Arg.WEIGHTS, each.weights_shift),
                )
            }
            arguments[Arg.DESTINATION] = stages.room(self.target)
            for position, (op, (_, number)) in enumerate(zip(ops, values, strict=True)):
                full = np.broadcast_to(number.reshape(-1), self.target.dims[-1])
                arguments[operand(position, op)] = stages.numbers(full, self.per_unit)
            stages.add(desc, arguments)
            results.append(arguments[Arg.DESTINATION])
        total = summed(stages, results, tuple(ending(call, self.rescale)))
        return step_of_words(call, stages, [data, *([words] if words else [])], total)

    def _levels(
        self, stages: Stages, data: WordBytes, words: WordBytes | None
    ) -> Callable[[int, int, int], Argument]:
        """Return the function that returns the levels of bytes: of an argument, shift and zero."""
        known: dict[tuple[int, int], Argument] = {}

        def levels(arg: int, shift: int, zero: int) -> Argument:
            if (arg, shift) not in known:  # two sums have the same bytes
                if arg == Arg.SOURCE:
                    stored = data.argument(self.source, shift)
                elif words is not None:
                    stored = words.argument(self.matrix, shift)
                else:
                    stored = stored_matrices(self.call, self.matrix)
                known[arg, shift] = stages.room(stored.desc.of_type(DataType.F32))
                stages.move(stored, known[arg, shift], zero)
            return known[arg, shift]

        return levels


def _has_one_zero(spec: Spec) -> bool:
    """Return whether a tensor has one scale, or one for each channel, and one zero point."""
    if not isinstance(spec.encoding, ScaleOffset | AxisScaleOffset):
        return False
    offsets = spec.encoding.scales_and_offsets(spec.shape)[1]
    return bool((offsets == offsets.reshape(-1)[0]).all())
