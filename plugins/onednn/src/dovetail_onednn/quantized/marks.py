"""Rounding of float32 results to stored bytes, with the bits of a definition in float64.

The library marks elements that are so near to a tie that the definition's result may be another
one. These few are computed as there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.kernels.near_ties import Exact, NearTies
from dovetail_onednn._api import Algorithm, Arg, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import Binary, Eltwise, PostOp, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.steps import is_slow

ULP = 2.0**-24  # a float32 operation is off by at most so much, relative to its result
_FARTHEST = 512  # steps from a result to its zero point
_SLACK = 2.0**-16  # what is nearer to the bound may not be marked
_WORD = 8  # bytes


def marked_step(
    call: KernelCall,
    stages: Stages,
    data: Value,
    real: Argument,
    scale: float,
    target: Argument,
    near: NearTies,
    exact_of: Callable[[KernelCall, Array], Exact],
) -> Step | None:
    """Return the step that rounds float32 results; None if the library only has generic code.

    Args:
        call: The call of the kernel.
        stages: The primitives that compute the results.
        data: The stored integers that `exact_of` receives.
        real: The results, dense; a whole number of words of 8 elements.
        scale: Real value of 1 in the results.
        target: Stored integers of the result, of 8 bits without a bitwidth.
        near: The rounding, with a relative error only.
        exact_of: Returns the function that computes some elements by the definition.
    """
    factor, (low, high) = scale / near.step, map(float, near.limits)
    chain: tuple[PostOp, ...] = (Eltwise(Algorithm.LINEAR, 1.0, float(near.zero)),)
    is_fast = _multiply(stages, real, factor, target, chain)
    marks = stages.room(target.desc.of_type(DataType.U8))
    certain = 0.5 - _FARTHEST * near.relative - _SLACK
    chain += (
        Eltwise(Algorithm.CLIP, low, high),
        Binary(BinaryAlgorithm.SUBTRACT, target.desc),
        Eltwise(Algorithm.ABS),
        Eltwise(Algorithm.LINEAR, 1 / _SLACK, -certain / _SLACK),
    )
    if not is_fast or not _multiply(stages, real, factor, marks, chain, target):
        return None
    run = stages.execution()

    def bind(buffers: Buffers) -> Bound:
        exact = exact_of(call, buffers.array(data))
        found = [_flat(buffers, each.value) for each in (real, target, marks)]
        return call_sequence((run(buffers), _settling(found, factor, near, exact)))

    return call.step(bind)


def _flat(buffers: Buffers, value: Value) -> Array:
    return buffers.array(value).reshape(-1)


def _settling(found: list[Array], factor: float, near: NearTies, exact: Exact) -> Bound:
    """Return the call that computes marked elements exactly where their own bound demands it."""
    out = found[1]
    real, marks = found[0].view(np.float32)[: out.size], found[2][: out.size]
    words, bytes_of = marks.view(np.uint64), marks.reshape(-1, _WORD)

    def run() -> None:
        marked = np.flatnonzero(words)
        if not marked.size:
            return
        which, byte = np.nonzero(bytes_of[marked])
        at = marked[which] * _WORD + byte
        steps = np.clip(real[at].astype(np.float64) * factor + near.zero, *near.limits)
        nearest = np.rint(steps)
        near.settle(out, at, nearest, np.abs(steps - nearest), exact)

    return run


def _multiply(
    stages: Stages,
    source: Argument,
    factor: float,
    target: Argument,
    chain: tuple[PostOp, ...] = (),
    other: Argument | None = None,
) -> bool:
    """Add a product with a number, post-ops, and perhaps the tensor that one of them reads.

    Returns:
        Whether the library has fast code for that.
    """
    ones = (1,) * len(source.desc.dims)
    number = MemoryDesc.strided(ones, ones)
    description = Description(
        "binary",
        (ENGINE, BinaryAlgorithm.MULTIPLY, source.desc, number, target.desc),
        lambda: f"a product of {source.desc.key} with a number",
        chain,
    )
    with PrimitiveDesc(description) as desc:
        arguments = {
            int(Arg.SOURCE): source,
            int(Arg.OTHER): stages.numbers(np.full(1, factor, np.float32), number),
            int(Arg.DESTINATION): target,
        }
        for position, op in enumerate(chain):
            if isinstance(op, Binary) and other is not None:
                arguments[operand(position, op)] = other
        stages.add(desc, arguments)
        return not is_slow(desc)
