"""Sums and products of two tensors of which one has 16 bits, by the definition's float32 formulas.

The operand that may broadcast becomes levels, or a term of the sum, on its scratchpad. The other
one becomes levels, is combined with it, and rescaled in one primitive. Each post-op is one of the
definition's operations, rounded to float32.
"""

from __future__ import annotations

import math

from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.binary import product_rescale, sum_rescale
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.integer.tables import function_name
from dovetail_onednn._api import Algorithm, BinaryAlgorithm
from dovetail_onednn.attributes import Binary, Eltwise, PostOp
from dovetail_onednn.folding import Folding
from dovetail_onednn.quantized.stages import Stages, has_fast_terms
from dovetail_onednn.quantized.types import TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import StoredReals, ending, step_of_words
from dovetail_onednn.threads import LEAST_SHARED_ELEMENTS, threads

_ADD, _MULTIPLY = BinaryAlgorithm.ADD, BinaryAlgorithm.MULTIPLY


def elementwise_of_words(call: KernelCall) -> Step | None:
    """Run ElementWiseAdd, Subtract or Multiply where a tensor has 16 bits; see `Kernel.make`."""
    view, shape = call.head, call.outputs[0].shape
    full = next((i for i in range(2) if call.spec(i).shape == shape), None)
    if full is None or DEFINITIONS.of(view) is None or not _are_known(call):
        return None
    factors, after, algorithm = (1.0, 1.0), 1.0, _ADD
    match function_name(view):
        case "ElementWiseAdd" | "ElementWiseSubtract" if (found := sum_rescale(view)) is not None:
            rescale, second = found
            factors = float(rescale.multiplier), float(second)
        case "ElementWiseMultiply" if (product := product_rescale(view)) is not None:
            rescale, algorithm, after = product, _MULTIPLY, float(product.multiplier)
        case _:
            return None
    folding, sides = Folding.repeating(shape, [call.spec(1 - full).shape]), (full, 1 - full)
    whole, part = (folding.desc(call.spec(i).shape) for i in sides)
    zero, other_zero = (float(grid_of(call.spec(i))[1]) for i in sides)
    own, last = _times(factors[1 - full]), ending(call, rescale)
    before, between = _times(factors[full]), _times(after)
    is_level = not other_zero and not own
    ops = [*before, Binary(algorithm, part), *between, *last]
    with threads(1 if math.prod(shape) < LEAST_SHARED_ELEMENTS else 0):
        if not has_fast_terms(whole, whole, ops):
            return None
        if not is_level and not has_fast_terms(part, part, own):
            return None
        copies = 1, folding.repeats
        reals = [StoredReals(call, i, n) for i, n in zip(sides, copies, strict=True)]
        stages = Stages(call)
        first, other = (r.argument(d) for r, d in zip(reals, (whole, part), strict=True))
        if not is_level:
            stages.add_terms((other, other), -other_zero, [(op, None) for op in own])
        reads = {len(before): other}
        terms = [(op, reads.get(position)) for position, op in enumerate(ops)]
        stages.add_terms((first, first), -zero, terms)
    return step_of_words(call, stages, reals, first)


def _are_known(call: KernelCall) -> bool:
    """Return whether all tensors have up to 16 bits, nothing is fused, and none is updated."""
    tensors = [*call.tensors, call.outputs[0]]
    known = WORDS | TYPES.keys()
    return not call.fused and all(
        t is not None and t.dtype in known and not t.kind.is_updateable for t in tensors
    )


def _times(factor: float) -> list[PostOp]:
    return [] if factor == 1 else [Eltwise(Algorithm.LINEAR, factor)]
