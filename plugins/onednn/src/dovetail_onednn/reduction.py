"""Reductions over adjacent axes that are not the last ones.

They run as poolings with one window over all of these axes. The library's own reductions are no
faster than NumPy: they took twice as long over the last axes and are generic code over others.
Reductions over the last axes are left to NumPy: a pooling of one channel fills no vector. So are
maxima, since poolings ignore NaN.
"""

from __future__ import annotations

import math

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import Algorithm, PoolingAlgorithm
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.layouts import narrow_layout
from dovetail_onednn.pooling import pooled
from dovetail_onednn.windows import Pooling


def reduce_mean(call: KernelCall) -> Step | None:
    """Run ReduceMean; see `Kernel.make`."""
    pooling = _pooling(call)
    return None if pooling is None else pooled(call, pooling, layout=narrow_layout(call))


def reduce_sum(call: KernelCall) -> Step | None:
    """Run ReduceSum as a mean times the number of elements; see `Kernel.make`."""
    pooling = _pooling(call)
    if pooling is None:
        return None
    times = Eltwise(Algorithm.LINEAR, float(math.prod(pooling.size)))
    return pooled(call, pooling, (times,), narrow_layout(call))


def _pooling(call: KernelCall) -> Pooling | None:
    parts = _parts(call.spec(0).shape, sorted(int(axis) for axis in call.op.axes))
    if not is_float32(call) or parts is None:
        return None
    before, along, after = parts
    source, target = (before, 1, along, after), (before, 1, 1, after)
    none = (0, 0)
    window = (1, along)
    return Pooling(PoolingAlgorithm.AVERAGE, source, target, window, (1, 1), none, none)


def _parts(shape: Shape, axes: list[int]) -> Shape | None:
    """Return the number of elements before the axes, on them and after them.

    None if the axes are not adjacent or only one element is after them.
    """
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return None
    ends = axes[0], axes[-1] + 1
    before, along, after = shape[: ends[0]], shape[slice(*ends)], shape[ends[1] :]
    parts = math.prod(before), math.prod(along), math.prod(after)
    return parts if parts[2] > 1 else None
