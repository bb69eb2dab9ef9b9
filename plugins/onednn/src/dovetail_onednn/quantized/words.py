"""Products of 16-bit data and weights of 8 or 16 bits: one for each pair of bytes.

The sums are added in float32 in the order of the definition: a product adds to the scratchpad of
those before it, or another primitive adds both. Float32 code serves as well, while sums stay below
2**24, which is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS, Pass, Rescale, passes
from dovetail_numpy.integer.products import accumulator_bound, channel_scales
from dovetail_numpy.integer.rescaling import rescale_of_products
from dovetail_onednn._api import SCALES, ZERO_POINTS, Arg, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import Binary, PostOp, Quantization, Sum, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import OneDnnLayout
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized import floats
from dovetail_onednn.quantized.forms import Form
from dovetail_onednn.quantized.products import (
    BIAS,
    DATA,
    LARGEST,
    WEIGHTS,
    parts_of,
    weights_argument,
)
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import EXACT, TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import WordBytes, byte_zero, ending, step_of_words
from dovetail_onednn.steps import is_slow


class Words(msgspec.Struct, frozen=True):
    """The numbers of a product of 16-bit data.

    Attributes:
        sums: Those of pairs of bytes, in the order of addition.
        rescale: Bias, and how sums become stored integers of the result.
        has_bias: Whether there is a bias.
        parts: Number of terms, which the library multiplies exactly, that the bytes of the weights
            are sums of, by their shift.
        is_exact_in_float: Whether float32 holds every partial sum.
    """

    sums: list[Pass]
    rescale: Rescale
    has_bias: bool
    parts: dict[int, int]
    is_exact_in_float: bool

    @property
    def most_parts(self) -> int:
        """The largest number of terms."""
        return max(self.parts.values())


def is_of_words(call: KernelCall) -> bool:
    """Return whether the data have 16 bits."""
    return call.spec(DATA).dtype in WORDS


def words_of(call: KernelCall) -> Words | None:
    """Return the numbers of a call; None if the library cannot compute it with the same bits."""
    view, weights, out = call.head, call.static(WEIGHTS), call.outputs[0].spec
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    if DEFINITIONS.of(view) is None or weights is None:
        return None
    if any(t.kind.is_updateable or 0 in t.shape for t in tensors):
        return None
    if out.dtype not in WORDS | TYPES.keys() or call.has(BIAS) != (call.static(BIAS) is not None):
        return None
    sums, bound, sizes = passes(view), accumulator_bound(view), (1, out.shape[-1])
    rescale = rescale_of_products(view, call.static(BIAS), channel_scales(view))
    numbers = [rescale.bias, *(each.multiplier for each in sums)]
    fits = (
        not any(each.block for each in sums)
        and all(n.size in sizes and bool(np.isfinite(n).all()) for n in numbers)
        and bound <= LARGEST
    )
    if not fits:
        return None
    shifts = {each.weights_shift for each in sums}
    parts = {shift: parts_of(weights, call.spec(WEIGHTS), shift) for shift in shifts}
    return Words(sums, rescale, call.has(BIAS), parts, bound < EXACT)


def step_of_bytes(call: KernelCall, words: Words, form_of: Callable[[int], Form]) -> Step | None:
    """Return the step of a product by code for bytes; None if the library only has generic code.

    Args:
        call: The call of the kernel.
        words: Its numbers.
        form_of: Returns the form for bytes of the weights that are sums of some terms.
    """
    forms = {shift: form_of(parts) for shift, parts in words.parts.items()}
    last = tuple(ending(call, words.rescale))
    first, *others = (_Product(call, words, each, forms[each.weights_shift]) for each in words.sums)
    described = first.described(())
    adding = [each.adding(last if each is others[-1] else ()) for each in others]
    descs = [described, *(desc for desc, _ in adding)]
    if not all(each.is_fast(desc) for each, desc in zip((first, *others), descs, strict=True)):
        return None
    stages = Stages(call)
    # a FullyConnected may have its depth in several axes of the data
    data = {
        parts: WordBytes(call, DATA, parts, form.plain.dims[1] // (parts * form.groups))
        for parts, form in ((words.parts[shift], form) for shift, form in forms.items())
    }
    total = stages.room(first.form.target)
    stages.add(described, {**first.arguments(stages, described, data), Arg.DESTINATION: total})
    for each, (desc, ops) in zip(others, adding, strict=True):
        arguments = each.arguments(stages, desc, data)
        is_joint = bool(ops) and isinstance(ops[0], Sum)
        result = total if is_joint else stages.room(each.form.target)
        if ops and isinstance(ops[0], Binary):
            arguments[operand(0, ops[0])] = total
        stages.add(desc, {**arguments, Arg.DESTINATION: result})
        if not ops:
            result = added(stages, (total, result), last if each is others[-1] else ())
        total = result
    return step_of_words(call, stages, list(data.values()), total)


class _Product(msgspec.Struct, frozen=True):
    """One of the products of bytes.

    Attributes:
        call: The call of the kernel.
        words: All numbers of it.
        given: Those of this product.
        form: How the library computes it.
    """

    call: KernelCall
    words: Words
    given: Pass
    form: Form

    @property
    def zero(self) -> int:
        """Zero point of the bytes of the data."""
        return byte_zero(self.call.spec(DATA), self.given.data_shift)

    @property
    def has_zero(self) -> bool:
        """True if the library gets the zero point."""
        return self.zero != 0 or self.form.needs_zero

    @property
    def has_bias(self) -> bool:
        """True if the bias is added to it: the first one, if there is a bias."""
        return self.words.has_bias and self.given is self.words.sums[0]

    def described(self, ops: tuple[PostOp, ...]) -> PrimitiveDesc:
        """Describe the primitive."""
        zero = (Arg.SOURCE,) if self.has_zero else ()
        quantization = Quantization(((Arg.WEIGHTS, self.form.mask),), zero)
        return self.form.describe(ops, quantization, self.has_bias)

    def adding(self, last: tuple[PostOp, ...]) -> tuple[PrimitiveDesc, tuple[PostOp, ...]]:
        """Describe the primitive that adds the products before, and return its post-ops.

        Some of the library's good code adds to the destination, some takes another tensor. If none
        does, there are no post-ops.
        """
        alone = self.described(())
        other = Binary(BinaryAlgorithm.ADD, self.form.target)
        choices: list[tuple[PostOp, ...]] = [(Sum(1.0, DataType.F32), *last), (other, *last)]
        for ops in choices[self.form.is_transposed :]:  # transposed ones add wrongly, see `Sum`
            desc = self.described(ops)
            if desc.implementation == alone.implementation:
                return desc, ops
        return alone, ()

    def is_fast(self, desc: PrimitiveDesc) -> bool:
        """Return whether the library has fast, exact code for a description of it."""
        return self.form.has_code(desc, self.has_zero) and self.form.takes(self.zero)

    def arguments(
        self, stages: Stages, desc: PrimitiveDesc, data: Mapping[int, WordBytes]
    ) -> dict[int, Argument]:
        """Declare all arguments but the destination.

        Args:
            stages: The primitives before it.
            desc: The description.
            data: The bytes of the data, by the number of their copies.
        """
        words, form, units = self.words, self.form, self.call.outputs[0].shape[-1]
        multiplier = self.given.multiplier.reshape(-1)
        numbers = {SCALES | Arg.WEIGHTS: np.broadcast_to(multiplier, units)}
        if self.has_bias:
            numbers[Arg.BIAS] = np.broadcast_to(words.rescale.bias.reshape(-1), units)
        if self.has_zero:
            numbers[ZERO_POINTS | Arg.SOURCE] = np.full(1, self.zero, np.int32)
        arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
        shift = self.given.weights_shift
        own_bytes = data[words.parts[shift]].argument(form.plain, self.given.data_shift)
        arguments[Arg.SOURCE] = form.padded(stages, own_bytes, self.zero)
        layout = OneDnnLayout(desc.desc(Arg.WEIGHTS), form.weights)
        packed = f"terms of bytes {words.parts[shift]} {self.has_zero}"
        arguments[Arg.WEIGHTS] = weights_argument(self.call, layout, packed, form.terms, shift)
        return arguments


def step_of_floats(
    call: KernelCall,
    words: Words,
    describe: floats.Describe,
    operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc],
    accepts: Callable[[PrimitiveDesc], bool] = lambda desc: not is_slow(desc),
    *,
    can_fuse: bool = True,
) -> Step | None:
    """Return the step of a product by float32 code; None if none is accepted.

    Args:
        call: The call of the kernel.
        words: Its numbers; it is exact in float32.
        describe: Describes the primitive, without a bias.
        operands: Dense descriptors of source, weights and result, float32.
        accepts: Returns whether the code of a primitive is good enough.
        can_fuse: As in `floats.float_step`.
    """
    source, weights, target = operands
    spec, units = call.spec(DATA), call.outputs[0].shape[-1]
    numbers = [[(BinaryAlgorithm.MULTIPLY, each.multiplier)] for each in words.sums]
    if words.has_bias:
        numbers[0].append((BinaryAlgorithm.ADD, words.rescale.bias))
    per_unit = floats.per_unit(units, target)
    chains = [tuple(Binary(algorithm, per_unit) for algorithm, _ in each) for each in numbers]
    descs = floats.described(describe, [ops if can_fuse else () for ops in chains], accepts)
    if descs is None:
        return None
    stages, data = Stages(call), WordBytes(call, DATA)
    results = []
    for each, desc, ops, values in zip(words.sums, descs, chains, numbers, strict=True):
        real = stages.room(desc.desc(Arg.SOURCE))
        own = data.argument(source, each.data_shift)
        stages.move(own, real, byte_zero(spec, each.data_shift))
        arguments: dict[int, Argument] = {
            Arg.SOURCE: real,
            Arg.WEIGHTS: floats.packed(call, desc, weights, each.weights_shift),
            Arg.DESTINATION: stages.room(desc.desc(Arg.DESTINATION)),
        }
        own_numbers = [number for _, number in values]
        floats.add_product(stages, desc, arguments, ops, own_numbers, is_fused=can_fuse)
        results.append(arguments[Arg.DESTINATION])
    total = summed(stages, results, tuple(ending(call, words.rescale)))
    if total.desc != target:
        total, chosen = stages.room(target), total
        stages.move(chosen, total)
    return step_of_words(call, stages, [data], total)


def summed(stages: Stages, results: Sequence[Argument], last: tuple[PostOp, ...]) -> Argument:
    """Add the sum of two or more results in order, then post-ops; return the sum, as `added`."""
    total, *others = results
    for other in others:
        total = added(stages, (total, other), last if other is others[-1] else ())
    return total


def added(stages: Stages, results: Sequence[Argument], ops: tuple[PostOp, ...]) -> Argument:
    """Add the sum of two results, and post-ops; return the sum, which overwrites the first."""
    first, second = results
    description = Description(
        "binary",
        (ENGINE, BinaryAlgorithm.ADD, first.desc, second.desc, first.desc),
        lambda: f"a sum of products of bytes of {first.desc.key}",
        ops,
    )
    with PrimitiveDesc(description) as desc:
        stages.add(desc, {Arg.SOURCE: first, Arg.OTHER: second, Arg.DESTINATION: first})
    return first
