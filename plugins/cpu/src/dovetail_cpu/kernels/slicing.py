"""Padding and slicing."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.ir import DType
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, in_order
from dovetail_cpu.kernels._calls import Call, copy, fill, only_moves
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE


@KERNELS.register(PACKAGE, "Pad")
def pad(call: KernelCall) -> Step | None:
    """Padding with a constant, where stored elements are numbers: the border, then the inside."""
    first = call.outputs[0]
    is_plain = first.encoding is None and first.dtype is not DType.BFLOAT_16
    if call.op.scheme.name != "CONSTANT" or not is_plain or not only_moves(call, 0):
        return None
    value = np.asarray(call.op.pad_constant_value).astype(call.spec(0).dtype.storage)
    pairs = [(int(before), int(after)) for before, after in call.op.pad_amount]
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        calls: list[Call] = []
        inside: Any = result
        for axis, (before, after) in enumerate(pairs):
            whole = (slice(None),) * axis
            extent = inside.shape[axis]
            sides = inside[(*whole, slice(before))], inside[(*whole, slice(extent - after, None))]
            calls += [fill(side, value) for side in sides if side.size]
            inside = inside[(*whole, slice(before, extent - after))]
        calls.append(copy(inside, buffers.array(x)))
        return in_order(calls)

    return call.step(bind)


@KERNELS.register(PACKAGE, "StridedSlice")
def strided_slice(call: KernelCall) -> Step | None:
    """One strided copy."""
    if not only_moves(call, 0):
        return None
    index = call.op.index()
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        return in_order([copy(buffers.array(out), buffers.array(x)[index])])

    return call.step(bind)
