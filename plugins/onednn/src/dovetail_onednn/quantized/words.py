"""Products of 16-bit data and 8-bit weights: the lower bytes of the data, then the upper ones.

The sums are added in float32 in the order of the definition, on a scratchpad that the second
primitive adds to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.products import (
    Pass,
    accumulator_bound,
    channel_scales,
    passes,
)
from dovetail_numpy.integer.rescaling import grid_of, rescale_of_products
from dovetail_onednn._api import SCALES, ZERO_POINTS, Algorithm, Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import Eltwise, PostOp, Quantization, Sum
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import OneDnnLayout
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.products import (
    BIAS,
    DATA,
    LARGEST,
    WEIGHTS,
    are_signed_bytes,
    levels_of,
)
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.quantized.word_conversions import (
    WORDS,
    WordBytes,
    byte_type,
    byte_zero,
    rounding,
    step_of_words,
)
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import is_slow

# Describes the primitive: types of source and result, post-ops, quantization, whether with a bias.
Describe = Callable[[DataType, tuple[PostOp, ...], Quantization, bool], PrimitiveDesc]


def is_of_words(call: KernelCall) -> bool:
    """Return whether the data have 16 bits."""
    return call.spec(DATA).dtype in WORDS


def words_step(
    call: KernelCall,
    describe: Describe,
    operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc],
    mask: int,
) -> Step | None:
    """Return the step of a product; None if the library cannot compute it with the same bits.

    Args:
        call: A call without fused nodes.
        describe: Describes the primitive, whose result is float32.
        operands: Dense descriptors of source, weights and result.
        mask: Mask of the axes of the weights along which output channels differ.
    """
    source, plain, target = operands
    spec, out = call.spec(DATA), call.outputs[0].spec
    units = out.shape[-1]
    sums = _passes(call, units)
    if sums is None:
        return None
    bias = call.static(BIAS)
    rescale = rescale_of_products(call.head, bias, channel_scales(call.head))
    if not np.isfinite(rescale.bias).all() or rescale.bias.size not in (1, units):
        return None
    last: list[PostOp] = [Sum(1.0, DataType.F32)]
    if out.dtype in WORDS:
        last += rounding(rescale.zero, rescale.limits)
    elif rescale.zero:
        last.append(Eltwise(Algorithm.LINEAR, 1.0, float(rescale.zero)))
    stages, data = Stages(call), WordBytes(call, DATA)
    total = stages.room(target)
    for each, ops, has_bias in zip(sums, ((), tuple(last)), (bias is not None, False), strict=True):
        kind, own = byte_type(spec, each.data_shift), byte_zero(spec, each.data_shift)
        quantization = Quantization(((Arg.WEIGHTS, mask),), (Arg.SOURCE,) if own else ())
        with describe(kind, ops, quantization, has_bias) as desc:
            if is_slow(desc):
                return None
            layout = OneDnnLayout(desc.desc(Arg.WEIGHTS), plain.of_type(DataType.S8))
            numbers = {SCALES | Arg.WEIGHTS: np.broadcast_to(each.multiplier.reshape(-1), units)}
            if has_bias:
                numbers[Arg.BIAS] = np.broadcast_to(rescale.bias.reshape(-1), units)
            if own:
                numbers[ZERO_POINTS | Arg.SOURCE] = np.full(1, own, np.int32)
            arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
            arguments[Arg.SOURCE] = data.argument(source, each.data_shift)
            arguments[Arg.WEIGHTS] = _weights(call, layout, f"{kind.name} {bool(own)}")
            arguments[Arg.DESTINATION] = total
            stages.add(desc, arguments)
    return step_of_words(call, stages, [data], total)


def _passes(call: KernelCall, units: int) -> list[Pass] | None:
    """Return the sums of a call, if it is a product of words and signed bytes that is exact."""
    view, weights, out = call.head, call.static(WEIGHTS), call.outputs[0].spec
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    if call.fused or not library().has_vnni or DEFINITIONS.of(view) is None:
        return None
    if any(t.kind.is_updateable or 0 in t.shape for t in tensors) or weights is None:
        return None
    if out.dtype not in WORDS | TYPES or call.has(BIAS) != (call.static(BIAS) is not None):
        return None
    found = passes(view)
    are_plain = all(
        not p.block and p.multiplier.size in (1, units) and bool(np.isfinite(p.multiplier).all())
        for p in found
    )
    fits = (
        len(found) == 2
        and are_plain
        and are_signed_bytes(weights, call.spec(WEIGHTS))
        and grid_of(out)[2] == out.dtype.stored_range()
        and accumulator_bound(view) <= LARGEST
    )
    return found if fits else None


def _weights(call: KernelCall, layout: OneDnnLayout, data: str) -> Argument:
    """Return packed weights, which the library packs for the data."""

    def make(arrays: Arrays, specs: Sequence[Spec | None]) -> Array:
        levels = levels_of(given(arrays[0]), specs[0])
        return pack(np.ascontiguousarray(levels, np.int8), layout)

    packed = call.read_packed(WEIGHTS, f"integer {data} {layout.key}", make, layout)
    return Argument(layout.desc, packed)
