"""Changes of shape and order: views where possible, else a copy into the result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import Call, copy
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import only_moves
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "Reshape")
@KERNELS.register(STANDARD, "ExpandDims")
@KERNELS.register(STANDARD, "Squeeze")
def reshape(call: KernelCall) -> Step | None:
    """Run Reshape, ExpandDims and Squeeze: a view, or a copy into the application's own buffer."""
    if not only_moves(call, 0):
        return None
    step = call.view(0)
    if step is not None:
        return step
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        return call_sequence([copy(result, buffers.array(x).reshape(result.shape))])

    return call.step(bind)


@KERNELS.register(STANDARD, "Transpose")
def transpose(call: KernelCall) -> Step | None:
    """Run Transpose: one strided copy."""
    if not only_moves(call, 0):
        return None
    perm = [int(p) for p in call.op.perm]
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        return call_sequence([copy(buffers.array(out), buffers.array(x).transpose(perm))])

    return call.step(bind)


@KERNELS.register(STANDARD, "Concat")
def concat(call: KernelCall) -> Step | None:
    """Run Concat: copy each input into its slice of the result."""
    given = [i for i in range(len(call.tensors)) if call.has(i)]
    if not only_moves(call, *given):
        return None
    axis: int = call.op.axis
    parts = [call.read(i) for i in given]
    out = call.write()
    bounds = np.cumsum([0, *(part.spec.shape[axis] for part in parts)]).tolist()

    def bind(buffers: Buffers) -> Bound:
        slices = _slices(buffers.array(out).ndim, axis, bounds)
        result = buffers.array(out)
        calls: list[Call] = [
            copy(result[where], buffers.array(part))
            for where, part in zip(slices, parts, strict=True)
        ]
        return call_sequence(calls)

    return call.step(bind)


@KERNELS.register(STANDARD, "Split")
def split(call: KernelCall) -> Step | None:
    """Run Split: views along the first axis, else copy each slice into its output."""
    if not only_moves(call, 0):
        return None
    axis: int = call.op.axis
    bounds = np.cumsum([0, *(part.shape[axis] for part in call.outputs)]).tolist()
    spec, smallest = call.spec(0), min(part.spec.nbytes for part in call.outputs)
    # a view keeps the whole in memory: no part may be much smaller than the others
    is_even = 2 * smallest * len(call.outputs) >= spec.nbytes
    if math.prod(spec.shape[:axis]) == 1 and is_even:
        inside = math.prod(spec.shape[axis + 1 :]) * spec.dtype.storage.itemsize
        step = call.view(0, offsets=[start * inside for start in bounds[:-1]])
        if step is not None:
            return step
    x = call.read(0)
    parts = [call.write(i) for i in range(len(call.outputs))]

    def bind(buffers: Buffers) -> Bound:
        source = buffers.array(x)
        slices = _slices(source.ndim, axis, bounds)
        calls: list[Call] = [
            copy(buffers.array(part), source[where])
            for where, part in zip(slices, parts, strict=True)
        ]
        return call_sequence(calls)

    return call.step(bind)


def _slices(rank: int, axis: int, bounds: Sequence[int]) -> list[tuple[slice, ...]]:
    """Return the index of each piece along an axis."""
    whole = (slice(None),) * rank
    return [
        (*whole[:axis], slice(start, stop), *whole[axis + 1 :])
        for start, stop in itertools.pairwise(bounds)
    ]
