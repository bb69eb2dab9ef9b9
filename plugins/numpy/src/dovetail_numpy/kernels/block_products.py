"""Products of rows by one matrix of stored integers with a scale for each block of its depth.

Sums of blocks are computed in float32, which holds each of them, so that BLAS adds them in any
order; they are then scaled and added in the order of the definition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer import DEFINITIONS, rescale_of_products
from dovetail_numpy.integer.products import (
    byte_shifts,
    channel_scales,
    operands,
    part,
    passes,
    sum_bound,
)
from dovetail_numpy.integer.rescaling import Floats
from dovetail_numpy.kernels._calls import BLOCK, block_size, blocks, floats, scratch_floats
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_opset import STANDARD

_DATA, _WEIGHTS, _BIAS = 0, 1, 2
_EXACT = 1 << 24  # float32 has all whole numbers up to this one


@KERNELS.register(STANDARD, "FullyConnected", quantized=True)
def fully_connected(call: KernelCall) -> Step | None:
    """Run FullyConnected with blocks of weights; see `Kernel.make`."""
    return _by_blocks(call, depth_axis=1)


@KERNELS.register(STANDARD, "MatMul", quantized=True)
def matmul(call: KernelCall) -> Step | None:
    """Run MatMul by one matrix with blocks; see `Kernel.make`."""
    if call.op.transpose_in0 or len(call.spec(_WEIGHTS).shape) != 2:
        return None
    return _by_blocks(call, depth_axis=1 if call.op.transpose_in1 else 0)


def _by_blocks(call: KernelCall, depth_axis: int) -> Step | None:
    """Return the step; None for other weights, or if float32 does not hold each sum."""
    view, stored, bias = call.head, call.static(_WEIGHTS), call.static(_BIAS)
    is_constant = stored is not None and call.has(_BIAS) == (bias is not None)
    if not is_constant or DEFINITIONS.of(view) is None or 0 in call.outputs[0].shape:
        return None
    sums = passes(view)
    if not all(p.block for p in sums):
        return None
    shape = call.spec(_WEIGHTS).shape
    depth, units = shape[depth_axis], shape[1 - depth_axis]
    parts = [p.block[depth_axis].indices(depth)[:2] for p in sums]
    data, weights = operands(view)
    longest = max(stop - start for start, stop in parts)
    if sum_bound(data, weights, None, longest, np.sum) >= _EXACT:
        return None
    rescale = rescale_of_products(view, bias, channel_scales(view))
    count = math.prod(call.outputs[0].shape) // units
    most = max(1, block_size(count * units, BLOCK) // units)
    x = call.read(_DATA)
    w = call.read_packed(_WEIGHTS, f"rows of levels {depth_axis}", partial(_levels, depth_axis))
    y, pad = call.write(), scratch_floats(call, 2 * min(most, count) * units)
    shifts = byte_shifts(data)

    def bind(buffers: Buffers) -> Bound:
        rows, result = buffers.array(x).reshape(-1, depth), buffers.array(y).reshape(-1, units)
        levels = buffers.array(w)
        pads = floats(buffers, pad).reshape(2, -1, units)

        def run(block: slice) -> None:
            own = {s: np.asarray(part(rows[block], data, s), np.float32) for s in shifts}
            v, acc = (each[: block.stop - block.start] for each in pads)
            for index, (p, (start, stop)) in enumerate(zip(sums, parts, strict=True)):
                out = acc if index else v
                np.matmul(own[p.data_shift][:, start:stop], levels[start:stop], out)
                np.multiply(out, p.multiplier, out)
                np.add(v, acc if index else rescale.bias, v)
            np.add(v, np.float32(rescale.zero), v)
            np.rint(v, v)
            v.clip(*map(np.float32, rescale.limits), out=v)
            np.copyto(result[block], v, casting="unsafe")

        return call_sequence([partial(run, block) for block in blocks(count, most)])

    return call.step(bind)


def _levels(
    depth_axis: int, arrays: Sequence[Array | None], specs: Sequence[Spec | None]
) -> Floats:
    """Return the levels of weights, (depth, units)."""
    stored, spec = arrays[0], specs[0]
    if stored is None or spec is None:
        raise AssertionError("a product without weights")
    found = part(stored, spec, 0)
    return np.ascontiguousarray(found.T if depth_axis else found, np.float32)
