"""Windows of convolutions, from the params of an op; those of a signal have one line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall
from dovetail_gpu.kernels._product import Window


def window_of(call: KernelCall) -> Window:
    """Return the window of a convolution."""
    shape, weight = call.spec(0).shape, call.spec(1).shape
    dims = len(shape) - 2
    return Window(
        pair(shape[1:-1], 1),
        pair(call.outputs[0].spec.shape[1:-1], 1),
        pair(weight[:-2], 1),
        pair(numbers_of(call.op.stride, dims), 1),
        pair(numbers_of(call.op.dilation, dims), 1),
        pair([before for before, _ in pads_of(call)], 0),
    )


def numbers_of(param: Array | int, dims: int) -> list[int]:
    """Return a param as a number for each axis."""
    return [int(n) for n in np.broadcast_to(np.reshape(param, -1), dims)]


def pads_of(call: KernelCall) -> list[tuple[int, int]]:
    """Return the padding before and after each axis."""
    return [(int(a), int(b)) for a, b in np.reshape(call.op.pad_amount, (-1, 2))]


def pair(values: Sequence[int], missing: int) -> tuple[int, int]:
    """Return numbers of two axes; of one axis, it is the second."""
    first, second = (missing, *values) if len(values) == 1 else values
    return int(first), int(second)
