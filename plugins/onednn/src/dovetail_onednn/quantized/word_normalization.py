"""Batchnorm of 16-bit tensors: sums of products of bytes with a number for each channel.

The definition multiplies byte by byte: each `Pass` is a product of small whole numbers, which is
exact, times its multiplier. The passes are added in float32 in the definition's order, on a
scratchpad that each primitive after the first one reads. The primitives take bytes from float32
words by rounding quotients, which is exact as well: the library has no fast code for functions of
bytes with float32 results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS, Pass, Rescale, passes, rescale_of_products
from dovetail_numpy.integer.products import channel_scales, part
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import Algorithm, Arg, BinaryAlgorithm
from dovetail_onednn.attributes import Binary, Eltwise
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.folding import Folding
from dovetail_onednn.quantized.products import BIAS, DATA, WEIGHTS
from dovetail_onednn.quantized.stages import Stages, Term, has_fast_terms
from dovetail_onednn.quantized.types import EXACT, TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import (
    BYTES,
    HALF,
    StoredReals,
    ending,
    step_of_words,
)
from dovetail_onednn.threads import LEAST_SHARED_ELEMENTS, threads


def batchnorm_of_words(call: KernelCall) -> Step | None:
    """Run Batchnorm where data, weights or result have 16 bits; see `Kernel.make`."""
    stored = call.static(WEIGHTS)
    if stored is None or not _is_plain(call):
        return None
    view, spec, weights, out = call.head, call.spec(DATA), call.spec(WEIGHTS), call.outputs[0].spec
    sums, rescale = passes(view), rescale_of_products(view, call.static(BIAS), channel_scales(view))
    levels = {p.weights_shift: part(stored, weights, p.weights_shift) for p in sums}
    if not _is_exact(sums, rescale, levels):
        return None
    folding = Folding.repeating(out.shape, [weights.shape])
    full, per_unit = folding.desc(out.shape), folding.desc(weights.shape)
    multiply, add = (Binary(a, per_unit) for a in (BinaryAlgorithm.MULTIPLY, BinaryAlgorithm.ADD))
    parts: list[tuple[float, list[Term]]] = []
    for each in sums:
        first, terms = _part(spec, each.data_shift, full)
        terms.append((multiply, levels[each.weights_shift]))
        terms.append((multiply, each.multiplier))
        if each is not sums[0]:
            terms.append((Binary(BinaryAlgorithm.ADD, full), Arg.DESTINATION))
        elif call.has(BIAS):
            terms.append((add, rescale.bias))
        if each is sums[-1]:
            terms += [(op, None) for op in ending(call, rescale)]
        parts.append((first, terms))
    is_small = math.prod(out.shape) < LEAST_SHARED_ELEMENTS
    with threads(1 if is_small else 0):
        if not all(has_fast_terms(full, full, [op for op, _ in terms]) for _, terms in parts):
            return None
        stages, data = Stages(call), StoredReals(call, DATA)
        read, total = data.argument(full), stages.room(full)
        for first, terms in parts:
            repeated = [
                (op, folding.repeated(each.reshape(-1)) if isinstance(each, np.ndarray) else each)
                for op, each in terms
            ]
            stages.add_terms((read, total), first, repeated, units=folding.width)
    return step_of_words(call, stages, [data], total)


def _is_plain(call: KernelCall) -> bool:
    """Return whether a call has constants alone, and types that bytes serve."""
    out, tensors = call.outputs[0].spec, [*call.tensors, call.outputs[0]]
    known = WORDS | TYPES.keys()
    return (
        DEFINITIONS.of(call.head) is not None
        and not any(t is not None and (t.kind.is_updateable or 0 in t.shape) for t in tensors)
        and {call.spec(DATA).dtype, out.dtype} <= known
        and call.has(BIAS) == (call.static(BIAS) is not None)
    )


def _is_exact(sums: Sequence[Pass], rescale: Rescale, levels: Mapping[int, Array]) -> bool:
    """Return whether float32 holds each product, and all numbers are finite."""
    numbers = [rescale.bias, *(each.multiplier for each in sums)]
    are_finite = all(bool(np.isfinite(values).all()) for values in numbers)
    largest = max(float(np.abs(found).max()) for found in levels.values())
    return are_finite and largest * BYTES < EXACT


def _part(spec: Spec, shift: int, stored: MemoryDesc) -> tuple[float, list[Term]]:
    """Return a number to add to stored integers, and what then makes them levels of a part.

    Args:
        spec: Of the data.
        shift: 8 for the upper bytes, 0 for the lower ones, or for data of 8 bits.
        stored: The stored integers, which are read.
    """
    zero = grid_of(spec)[1]
    if spec.dtype in TYPES:
        return -float(zero), []
    least = spec.dtype.stored_range()[0]
    upper, lower = divmod(zero - least, BYTES)
    quotient: list[Term] = [
        (Eltwise(Algorithm.LINEAR, 1 / BYTES), None),
        (Eltwise(Algorithm.ROUND), None),
    ]
    if shift:
        return -least - HALF, [*quotient, (Eltwise(Algorithm.LINEAR, 1.0, -float(upper)), None)]
    rest = Eltwise(Algorithm.LINEAR, -float(BYTES), -float(least + lower))
    return -least - HALF, [
        *quotient,
        (rest, None),
        (Binary(BinaryAlgorithm.ADD, stored), Arg.SOURCE),
    ]
