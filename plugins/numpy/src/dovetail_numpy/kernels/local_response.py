"""Local response normalization: windows slide over the channels of concatenated rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import (
    Call,
    block_size,
    blocks,
    constant,
    fill,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "Lrn")
def lrn(call: KernelCall) -> Step | None:
    """Run Lrn across channels, a block of rows at a time.

    Rows are separated by as many zeros as a window extends to one side, so a few additions of one
    long, shifted row compute the sums of all windows of a block.
    """
    shape, op = call.spec(0).shape, call.op
    if not is_float32(call) or op.region.name != "ACROSS_CHANNEL":
        return None
    width, height = shape[-1], math.prod(shape[:-1])
    radius = min(op.radius, width - 1)
    stride = width + radius
    most = min(max(1, block_size(height * stride) // stride), height)
    x, out = call.read(0), call.write()
    pads = [scratch_floats(call, radius + most * stride) for _ in range(3)]

    def bind(buffers: Buffers) -> Bound:
        rows, results = (buffers.array(v).reshape(height, width) for v in (x, out))
        squares, sums, roots = (floats(buffers, pad) for pad in pads)
        calls: list[Call] = [fill(squares[:radius], constant(0))]
        for block in blocks(height, most):
            count = block.stop - block.start
            squared = squares[radius : radius + count * stride].reshape(count, stride)
            total = sums[: count * stride].reshape(count, stride)
            length = count * stride - radius  # no window follows the last row
            calls += [
                ufunc(np.multiply, rows[block], rows[block], squared[:, :width]),
                fill(squared[:, width:], constant(0)),
                *_window_calls(squares, sums[:length], radius),
                *_power_calls(op, sums[:length], roots[:length]),
                ufunc(np.divide, rows[block], total[:, :width], results[block]),
            ]
        return call_sequence(calls)

    return call.step(bind, in_place=[(0, 0)])


def _window_calls(squares: Array, sums: Array, radius: int) -> Iterator[Call]:
    """Yield the calls for the sums of 2 * radius + 1 squares, starting at each element."""
    first, *others = (squares[i : i + sums.size] for i in range(2 * radius + 1))
    if not others:
        yield ufunc(np.positive, first, sums)
        return
    yield ufunc(np.add, first, others[0], sums)
    for other in others[1:]:
        yield ufunc(np.add, sums, other, sums)


def _power_calls(op: Any, base: Array, root: Array) -> Iterator[Call]:
    """Yield the calls for (bias + alpha * base) ** beta; roots are ten times as fast as powers."""
    alpha, beta, bias = op.alpha, op.beta, op.bias
    yield ufunc(np.multiply, base, constant(alpha), base)
    yield ufunc(np.add, base, constant(bias), base)
    if beta == 0.75:
        yield ufunc(np.sqrt, base, base)
        yield ufunc(np.sqrt, base, root)
        yield ufunc(np.multiply, base, root, base)
    elif beta == 0.5:
        yield ufunc(np.sqrt, base, base)
    elif beta != 1:
        yield ufunc(np.power, base, constant(beta), base)
