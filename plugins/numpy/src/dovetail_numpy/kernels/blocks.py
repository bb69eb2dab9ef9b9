"""Exchange of space and channels: a copy of the view that the op returns."""

from __future__ import annotations

from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import Call, copy
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import only_moves
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "DepthToSpace")
@KERNELS.register(STANDARD, "SpaceToDepth")
def arranged(call: KernelCall) -> Step | None:
    """Run DepthToSpace and SpaceToDepth: one strided copy."""
    if not only_moves(call, 0):
        return None
    op = call.op
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        view = op.arranged(buffers.array(x))
        return call_sequence([copy(buffers.array(out).reshape(view.shape), view)])

    return call.step(bind)


@KERNELS.register(STANDARD, "ChannelShuffle")
def channel_shuffle(call: KernelCall) -> Step | None:
    """Run ChannelShuffle: a strided copy for each group, or each channel of a group if fewer.

    A single copy would have inner loops as long as the number of groups: it took three times as
    long at ShuffleNet's shapes.
    """
    if not only_moves(call, 0):
        return None
    op = call.op
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        view = op.arranged(buffers.array(x))
        result = buffers.array(out).reshape(view.shape)
        each, groups = view.shape[op.axis : op.axis + 2]
        before = (slice(None),) * (op.axis + (groups <= each))
        calls: list[Call] = [
            copy(result[(*before, i)], view[(*before, i)]) for i in range(min(groups, each))
        ]
        return call_sequence(calls)

    return call.step(bind)
