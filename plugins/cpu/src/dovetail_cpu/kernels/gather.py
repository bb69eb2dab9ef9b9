"""Gathering by index."""

from __future__ import annotations

import numpy as np

from dovetail.errors import BackendError
from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_cpu.kernels._calls import only_moves
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE


@KERNELS.register(PACKAGE, "Gather")
def gather(call: KernelCall) -> Step | None:
    """Gather: the indices are looked at in every run, since one out of range would wrap around."""
    if not only_moves(call, 0) or 0 in call.spec(1).shape:
        return None
    axis: int = call.op.axis
    extent = call.spec(0).shape[axis]
    node = call.head.node

    def run(data: Array, indices: Array, out: Array, scratch: Array) -> None:
        low, high = int(indices.min()), int(indices.max())
        if low < -extent or high >= extent:
            raise BackendError(
                f"index {low if low < -extent else high} is out of range on axis {axis}, which "
                f"has {extent} elements",
                where=node.where,
                hint="an index must lie between minus the number of elements and one below it",
            )
        wanted = scratch.view(np.intp).reshape(indices.shape)
        np.copyto(wanted, indices, casting="unsafe")  # in range, so nothing is lost
        # mode="raise" would gather into a copy of the result first
        np.take(data, wanted, axis, out, "wrap")

    call.read(0)
    indices = call.read(1)
    call.write()
    count = indices.nbytes // indices.spec.dtype.storage.itemsize
    call.scratch(count * np.dtype(np.intp).itemsize)
    return call.array_step(run)
