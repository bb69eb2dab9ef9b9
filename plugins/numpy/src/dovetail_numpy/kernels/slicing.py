"""Padding and slicing."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import copy, fill
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import only_moves
from dovetail_opset import STANDARD

# Bytes of a tensor that may be kept for any small part of it.
_LITTLE = 1 << 16


@KERNELS.register(STANDARD, "Pad")
def pad(call: KernelCall) -> Step | None:
    """Run Pad: first the inside, then the ends of each axis."""
    if not call.spec(0).shape or not only_moves(call, 0):
        return None
    scheme = call.op.scheme.name
    value = _fill_value(call) if scheme == "CONSTANT" else None
    pairs = [(int(before), int(after)) for before, after in call.op.pad_amount]
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        within = [slice(b, n - a) for n, (b, a) in zip(result.shape, pairs, strict=True)]
        calls = [copy(result[tuple(within)], buffers.array(x))]
        for axis, pair in enumerate(pairs):
            # corners are copies of copies: earlier axes are whole by now
            region = result[(*(slice(None),) * axis, slice(None), *within[axis + 1 :])]
            region = np.moveaxis(region, axis, 0)
            if value is not None:
                sides = region[: pair[0]], region[len(region) - pair[1] :]
                calls += [fill(side, value) for side in sides if side.size]
            else:
                ends = _copied(region, pair, scheme)
                calls += [copy(side, source) for side, source in ends if side.size]
        return call_sequence(calls)

    return call.step(bind)


def _copied(region: Array, pair: tuple[int, int], scheme: str) -> list[tuple[Array, Array]]:
    """Return both ends of the first axis, each with the elements that it repeats."""
    before, after = pair
    first, last = before, len(region) - after
    ends = region[:first], region[last:]
    if scheme == "EDGE":
        return list(zip(ends, (region[first : first + 1], region[last - 1 : last]), strict=True))
    skipped = int(scheme == "MIRROR_REFLECT")
    start, stop = first + skipped, last - skipped
    mirrored = region[start : start + before][::-1], region[stop - after : stop][::-1]
    return list(zip(ends, mirrored, strict=True))


def _fill_value(call: KernelCall) -> Array:
    """Return the stored form of the constant: an element that the op itself adds."""
    schema, op = call.head.definition
    spec = call.spec(0)
    amount = np.zeros((len(spec.shape), 2), np.uint32)
    amount[0, 0] = 1
    smallest = type(op)(**{**vars(op), "pad_amount": amount})
    one = np.zeros((1,) * len(spec.shape), spec.dtype.storage)
    (padded,) = schema.reference(smallest, [one], call.head.outs)
    return np.asarray(padded.reshape(-1)[0])


@KERNELS.register(STANDARD, "StridedSlice")
def strided_slice(call: KernelCall) -> Step | None:
    """Run StridedSlice: a view where the elements are contiguous, else a strided copy."""
    if not only_moves(call, 0):
        return None
    index = call.op.index()
    start = _contiguous(call.spec(0), index) if _keeps_little(call) else None
    if start is not None and (step := call.view(0, offsets=[start])):
        return step
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        part = buffers.array(x)[(*index, ...)]  # an array, where without `...` it may be a number
        return call_sequence([copy(buffers.array(out), part)])

    return call.step(bind)


def _keeps_little(call: KernelCall) -> bool:
    """Return whether a view keeps no large tensor in memory for a small part of it."""
    source, part = call.spec(0).nbytes, call.outputs[0].spec.nbytes
    return source <= _LITTLE or 2 * part >= source


def _contiguous(spec: Spec, index: tuple[slice | int | None, ...]) -> int | None:
    """Return the offset in bytes of the elements that an index selects; None if not contiguous."""
    strides = [math.prod(spec.shape[axis + 1 :]) for axis in range(len(spec.shape))]
    # the elements are never read, so all share one byte; with `...` a slice of rank 0 is an array
    # too, where a number would be read
    whole = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), spec.shape, strides)
    part = whole[(*index, ...)]
    if not part.flags.c_contiguous:
        return None
    first, start = (int(a.__array_interface__["data"][0]) for a in (whole, part))
    return (start - first) * spec.dtype.storage.itemsize
