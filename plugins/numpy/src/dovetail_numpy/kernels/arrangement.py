"""Packing, unpacking and repeating of tensors."""

from __future__ import annotations

from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import Call, copy
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.blocks import arranged
from dovetail_numpy.kernels.conditions import only_moves
from dovetail_opset import STANDARD

KERNELS.register(STANDARD, "Tile")(arranged)


@KERNELS.register(STANDARD, "Pack")
def pack(call: KernelCall) -> Step | None:
    """Run Pack: copy each input into its slice of the result."""
    given = [i for i in range(len(call.tensors)) if call.has(i)]
    if not only_moves(call, *given):
        return None
    before = (slice(None),) * call.op.axis
    parts = [call.read(i) for i in given]
    out = call.write()

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        calls: list[Call] = [
            copy(result[(*before, i, ...)], buffers.array(part)) for i, part in enumerate(parts)
        ]
        return call_sequence(calls)

    return call.step(bind)


@KERNELS.register(STANDARD, "UnPack")
def unpack(call: KernelCall) -> Step | None:
    """Run UnPack: copy each slice into its output."""
    if not only_moves(call, 0):
        return None
    before = (slice(None),) * call.op.axis
    x = call.read(0)
    parts = [call.write(i) for i in range(len(call.outputs))]

    def bind(buffers: Buffers) -> Bound:
        source = buffers.array(x)
        calls: list[Call] = [
            copy(buffers.array(part), source[(*before, i, ...)]) for i, part in enumerate(parts)
        ]
        return call_sequence(calls)

    return call.step(bind)
