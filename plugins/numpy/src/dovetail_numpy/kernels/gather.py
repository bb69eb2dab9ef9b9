"""Gathering by index."""

from __future__ import annotations

import functools
import math

import numpy as np

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._flat_indices import FlatIndices, Rows, need_in_range
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import only_moves
from dovetail_opset import STANDARD

# Of a result of at most so many bytes NumPy's own check and copy take less time than a search for
# indices out of range.
_FEW_BYTES = 1 << 15


@KERNELS.register(STANDARD, "Gather")
def gather(call: KernelCall) -> Step | None:
    """Run Gather; its indices are checked in every run, since NumPy would let some wrap around."""
    if not only_moves(call, 0) or 0 in call.spec(1).shape:
        return None
    axis: int = call.op.axis
    size = call.spec(0).shape[axis]
    where = call.head.node.where

    def run(data: Array, indices: Array, out: Array, scratch: Array) -> None:
        need_in_range(indices, size, axis, where)
        wanted = scratch.view(np.intp).reshape(indices.shape)
        np.copyto(wanted, indices, casting="unsafe")  # in range, so nothing is lost
        # mode="raise" would gather into a copy of the result first
        data.take(wanted, axis, out, "wrap")

    def run_few(data: Array, indices: Array, out: Array) -> None:
        try:
            data.take(indices, axis, out)
        except IndexError:
            need_in_range(indices, size, axis, where)
            raise

    call.read(0)
    indices = call.read(1)
    if call.write().nbytes <= _FEW_BYTES and np.can_cast(indices.spec.dtype.storage, np.intp):
        return call.array_step(run_few)
    count = indices.nbytes // indices.spec.dtype.storage.itemsize
    call.scratch(count * np.dtype(np.intp).itemsize)
    return call.array_step(run)


@KERNELS.register(STANDARD, "GatherElements")
def gather_elements(call: KernelCall) -> Step | None:
    """Run GatherElements: one NumPy call that takes elements by their offsets."""
    indices = call.spec(1).shape
    if not only_moves(call, 0) or 0 in indices:
        return None
    rows = Rows.along(call.spec(0).shape, call.op.axis, indices)
    return _taken(call, FlatIndices(call, 1, rows, single=True), ())


@KERNELS.register(STANDARD, "GatherNd")
def gather_nd(call: KernelCall) -> Step | None:
    """Run GatherNd: one NumPy call that takes slices by their offsets."""
    data, indices = call.spec(0).shape, call.spec(1).shape
    if not only_moves(call, 0) or 0 in indices:
        return None
    batch: int = call.op.batch_dims
    rows = Rows.into(data, indices[-1], batch, indices)
    return _taken(call, FlatIndices(call, 1, rows), data[batch + indices[-1] :])


def _taken(call: KernelCall, offsets: FlatIndices, slices: Shape) -> Step:
    """Return the step that takes slices of this shape from offsets into all of the data."""
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        found, calls = offsets.bind(buffers)
        data = buffers.array(x)
        flat = data.reshape(data.size // math.prod(slices), *slices)
        target = buffers.array(out).reshape(len(found), *slices)
        return call_sequence([*calls, functools.partial(flat.take, found, 0, target, "wrap")])

    return call.step(bind)
