"""Products of two activations, one of which has 16 bits at least: a product for each pair of bytes.

The sums are added in float32 in the order of the definition: each primitive after the first one
adds to its scratchpad.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.ir import ScaleOffset
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS, passes, rescale_of_products
from dovetail_numpy.integer.products import accumulator_bound, channel_scales
from dovetail_onednn._api import SCALES, ZERO_POINTS, Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import PostOp, Quantization, Sum
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.products import BIAS, DATA, LARGEST, WEIGHTS
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import WordBytes, byte_zero, ending, step_of_words
from dovetail_onednn.steps import is_slow

Describe = Callable[
    [tuple[MemoryDesc | None, ...], tuple[PostOp, ...], Quantization], PrimitiveDesc
]


def matmul_of_words(
    call: KernelCall, operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc], describe: Describe
) -> Step | None:
    """Return the step of two tensors of 16 bits; None if the library has no exact, fast code.

    Args:
        call: The call of the kernel.
        operands: Dense descriptors of both tensors and the result.
        describe: Describes the primitive of source, matrix, bias and result.
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
        descs.append(describe((source, matrix, None, target), tuple(ops), quantization))
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
