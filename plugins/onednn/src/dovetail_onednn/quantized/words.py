"""Products of 16-bit data and 8-bit weights: the lower bytes of the data, then the upper ones.

The sums are added in float32 in the order of the definition: the second product adds to the first
one's scratchpad, or a third primitive adds both. Float32 code serves as well, while sums stay below
2**24, which is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
        sums: Those of lower and upper bytes.
        rescale: Bias, and how sums become stored integers of the result.
        has_bias: Whether there is a bias.
        parts: Number of terms, which the library multiplies exactly, that the weights are sums of.
        is_exact_in_float: Whether float32 holds every partial sum.
    """

    sums: tuple[Pass, Pass]
    rescale: Rescale
    has_bias: bool
    parts: int
    is_exact_in_float: bool


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
        len(sums) == 2
        and not any(each.block for each in sums)
        and all(n.size in sizes and bool(np.isfinite(n).all()) for n in numbers)
        and bound <= LARGEST
    )
    if not fits:
        return None
    parts = parts_of(weights, call.spec(WEIGHTS))
    return Words((sums[0], sums[1]), rescale, call.has(BIAS), parts, bound < EXACT)


def step_of_bytes(call: KernelCall, words: Words, form: Form) -> Step | None:
    """Return the step of a product by code for bytes; None if the library only has generic code."""
    spec, units = call.spec(DATA), call.outputs[0].shape[-1]
    last = tuple(ending(call, words.rescale))
    zeros = [byte_zero(spec, each.data_shift) for each in words.sums]
    are_given = [zero != 0 or form.needs_zero for zero in zeros]

    def described(which: int, ops: tuple[PostOp, ...]) -> PrimitiveDesc:
        zero = (Arg.SOURCE,) if are_given[which] else ()
        quantization = Quantization(((Arg.WEIGHTS, form.mask),), zero)
        return form.describe(ops, quantization, words.has_bias and not which)

    # some of the library's good code adds to the destination, some takes another tensor
    lower, other = described(0, ()), Binary(BinaryAlgorithm.ADD, form.target)
    choices: list[tuple[PostOp, ...]] = [(Sum(1.0, DataType.F32), *last), (other, *last), ()]
    for ops in choices:
        upper = described(1, ops)
        if upper.implementation == lower.implementation:
            break
    descs = lower, upper
    if not (all(map(form.has_code, descs, are_given)) and all(map(form.takes, zeros))):
        return None
    # a FullyConnected may have its depth in several axes of the data
    width = form.plain.dims[1] // (words.parts * form.groups)
    stages, data = Stages(call), WordBytes(call, DATA, words.parts, width)
    first = stages.room(form.target)
    is_joint = Sum(1.0, DataType.F32) in ops
    total = first if is_joint else stages.room(form.target)
    ends = zip(words.sums, zeros, are_given, descs, (first, total), strict=True)
    for each, own, is_given, desc, result in ends:
        layout = OneDnnLayout(desc.desc(Arg.WEIGHTS), form.weights)
        numbers = {SCALES | Arg.WEIGHTS: np.broadcast_to(each.multiplier.reshape(-1), units)}
        if words.has_bias and each is words.sums[0]:
            numbers[Arg.BIAS] = np.broadcast_to(words.rescale.bias.reshape(-1), units)
        if is_given:
            numbers[ZERO_POINTS | Arg.SOURCE] = np.full(1, own, np.int32)
        arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
        own_bytes = data.argument(form.plain, each.data_shift)
        arguments[Arg.SOURCE] = form.padded(stages, own_bytes, own)
        packed = f"terms of bytes {words.parts} {is_given}"
        arguments[Arg.WEIGHTS] = weights_argument(call, layout, packed, form.terms)
        arguments[Arg.DESTINATION] = result
        if each is words.sums[1] and other in ops:
            arguments[operand(0, other)] = first
        stages.add(desc, arguments)
    if not ops:
        total = added(stages, (first, total), last)
    return step_of_words(call, stages, [data], total)


def step_of_floats(
    call: KernelCall,
    words: Words,
    describe: floats.Describe,
    operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc],
    accepts: Callable[[PrimitiveDesc], bool] = lambda desc: not is_slow(desc),
) -> Step | None:
    """Return the step of a product by float32 code; None if none is accepted.

    Args:
        call: The call of the kernel.
        words: Its numbers; it is exact in float32.
        describe: Describes the primitive, without a bias.
        operands: Dense descriptors of source, weights and result, float32.
        accepts: Returns whether the code of a primitive is good enough.
    """
    source, weights, target = operands
    spec, units = call.spec(DATA), call.outputs[0].shape[-1]
    numbers = [[(BinaryAlgorithm.MULTIPLY, each.multiplier)] for each in words.sums]
    if words.has_bias:
        numbers[0].append((BinaryAlgorithm.ADD, words.rescale.bias))
    per_unit = floats.per_unit(units, target)
    chains = [tuple(Binary(algorithm, per_unit) for algorithm, _ in each) for each in numbers]
    for is_dense in (True, False):
        descs = [describe(ops, is_dense) for ops in chains]
        if all(map(accepts, descs)):
            break
    else:
        return None
    stages, data = Stages(call), WordBytes(call, DATA)
    results = []
    for each, desc, ops, values in zip(words.sums, descs, chains, numbers, strict=True):
        real = stages.room(desc.desc(Arg.SOURCE))
        own = data.argument(source, each.data_shift)
        stages.move(own, real, byte_zero(spec, each.data_shift))
        arguments: dict[int, Argument] = {
            Arg.SOURCE: real,
            Arg.WEIGHTS: floats.packed(call, desc, weights),
            Arg.DESTINATION: stages.room(desc.desc(Arg.DESTINATION)),
        }
        for position, (op, (_, number)) in enumerate(zip(ops, values, strict=True)):
            full = np.broadcast_to(number.reshape(-1), (units,))
            arguments[operand(position, op)] = stages.numbers(full, per_unit)
        stages.add(desc, arguments)
        results.append(arguments[Arg.DESTINATION])
    total = added(stages, results, tuple(ending(call, words.rescale)))
    if total.desc != target:
        total, chosen = stages.room(target), total
        stages.move(chosen, total)
    return step_of_words(call, stages, [data], total)


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
