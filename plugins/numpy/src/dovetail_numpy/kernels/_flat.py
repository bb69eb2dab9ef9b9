"""Elementwise functions in several passes, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import Call, block_size, blocks, floats, scratch_floats

# Returns the calls for a block, from its input, its result and scratchpads of the same size. Input
# and result may be the same array.
Passes = Callable[..., Iterable[Call]]


def flat_step(
    call: KernelCall, passes: Passes, scratchpads: int = 0, *, in_blocks: bool = True
) -> Step:
    """Return the step of a function of one tensor, computed in place where possible.

    Args:
        call: Reads one input and writes one output of its shape and type.
        passes: Returns the calls for one block.
        scratchpads: Number of scratchpads it needs, float32.
        in_blocks: Whether it has several passes: one takes no time for blocks, which each run on
            other arrays would bind.
    """
    x, out = call.read(0), call.write()
    total = x.nbytes // x.spec.dtype.storage.itemsize
    size = min(block_size(total), total) if in_blocks else total
    pads = [scratch_floats(call, size) for _ in range(scratchpads)]

    def bind(buffers: Buffers) -> Bound:
        flat, result = buffers.array(x).reshape(-1), buffers.array(out).reshape(-1)
        spare: list[Array] = [floats(buffers, pad) for pad in pads]
        calls: list[Call] = []
        for block in blocks(total, size):
            count = block.stop - block.start
            calls += passes(flat[block], result[block], *(pad[:count] for pad in spare))
        return call_sequence(calls)

    return call.step(bind, in_place=[(0, 0)])
