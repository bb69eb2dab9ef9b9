"""Batchnorm of stored bytes: a product and a sum for each channel."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import Algorithm, Arg, BinaryAlgorithm
from dovetail_onednn.attributes import Binary, Eltwise, PostOp, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.folding import Folding
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.products import DATA, WEIGHTS, Integers, integers_of, levels_of
from dovetail_onednn.quantized.types import WORDS
from dovetail_onednn.quantized.word_normalization import batchnorm_of_words
from dovetail_onednn.steps import Arguments, is_slow
from dovetail_onednn.threads import LEAST_SHARED_ELEMENTS, threads

_ADD, _MULTIPLY = BinaryAlgorithm.ADD, BinaryAlgorithm.MULTIPLY


def batchnorm(call: KernelCall) -> Step | None:
    """Run Batchnorm and fused nodes as one primitive; see `Kernel.make`.

    All operations but those of the definition are exact: levels and their products are whole.
    """
    specs = call.spec(DATA), call.spec(WEIGHTS), call.head.outs[0], call.outputs[0].spec
    if any(spec.dtype in WORDS for spec in specs):
        return batchnorm_of_words(call)
    stored = call.static(WEIGHTS)
    if stored is None:
        return None
    units = call.spec(WEIGHTS).shape[0]
    integers = integers_of(call, units)
    if integers is None or integers.fused.added is not None:
        return None
    result = call.outputs[0].shape
    folding = Folding.repeating(result, [(units,)])
    source, target = (folding.desc(result).of_type(t) for t in (integers.source, integers.target))
    per_unit, number = folding.desc((units,)), folding.desc(())
    levels = levels_of(stored, call.spec(WEIGHTS)).astype(np.float32)
    first = np.full(1, -integers.zero, np.float32) if integers.zero else levels
    first = folding.repeated(first)
    terms = _terms(integers, levels if integers.zero else None, per_unit)
    ops = tuple(op for op, _ in terms)
    other = number if integers.zero else per_unit
    algorithm = _ADD if integers.zero else _MULTIPLY
    fused = "".join(f" + {op}" for op in ops)
    description = Description(
        "binary",
        (ENGINE, algorithm, source, other, target),
        lambda: f"an integer batch normalization{fused} of {target.key}",
        ops,
    )
    is_small = math.prod(result) < LEAST_SHARED_ELEMENTS
    with threads(1 if is_small else 0), PrimitiveDesc(description) as desc:
        if is_slow(desc):
            return None
        arguments = Arguments(call, desc)
        arguments.read_plain(Arg.SOURCE, DATA)
        arguments.numbers(Arg.OTHER, first)
        for position, (op, values) in enumerate(terms):
            if isinstance(op, Binary) and values is not None:
                each = np.broadcast_to(folding.repeated(values), (folding.width,))
                full = np.ascontiguousarray(each, np.float32)
                arguments.constant(operand(position, op), call.constant(full), op.other)
        arguments.write_plain(Arg.DESTINATION, 0)
        return arguments.step(in_place=[(0, 0)])


def _terms(
    integers: Integers, levels: Array | None, per_unit: MemoryDesc
) -> list[tuple[PostOp, Array | None]]:
    """Return post-ops and the constants that they read.

    Args:
        integers: The numbers.
        levels: Those of the weights, if the primitive does not multiply by them.
        per_unit: Descriptor of a number for each channel.
    """
    multiply, add = Binary(_MULTIPLY, per_unit), Binary(_ADD, per_unit)
    found: list[tuple[PostOp, Array | None]] = [] if levels is None else [(multiply, levels)]
    multiplier = integers.rescale.multiplier
    if multiplier.size > 1:
        found.append((multiply, multiplier))
    else:
        found.append((Eltwise(Algorithm.LINEAR, float(multiplier[0])), None))
    if integers.has_bias:
        found.append((add, integers.rescale.bias))
    found += [(op, None) for op in integers.fused.ops]
    if zero := integers.fused.zero:
        found.append((Eltwise(Algorithm.LINEAR, 1.0, float(zero)), None))
    return found
