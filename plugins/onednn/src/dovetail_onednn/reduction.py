"""Reductions over axes that lie side by side, with others behind them.

They are poolings with one window over all of these axes. The library's own reductions measured no
faster than NumPy: twice as slow over the last axes, generic code over others. Those over the last
axes are not taken, since a pooling of one channel fills no vector.
"""

from __future__ import annotations

import math

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import Algorithm, PoolingAlgorithm
from dovetail_onednn.layouts import narrow_layout
from dovetail_onednn.pooling import Pooling
from dovetail_onednn.primitives import Eltwise
from dovetail_onednn.steps import is_float32


def reduce_mean(call: KernelCall) -> Step | None:
    """Run ReduceMean; see `Kernel.make`."""
    pooling = _pooling(call)
    return None if pooling is None else pooling.step(call, layout=narrow_layout(call))


def reduce_sum(call: KernelCall) -> Step | None:
    """Run ReduceSum, as means times their number; see `Kernel.make`."""
    pooling = _pooling(call)
    if pooling is None:
        return None
    times = Eltwise(Algorithm.LINEAR, float(math.prod(pooling.size)))
    return pooling.step(call, (times,), narrow_layout(call))


def _pooling(call: KernelCall) -> Pooling | None:
    parts = _parts(call.spec(0).shape, sorted(int(axis) for axis in call.op.axes))
    if not is_float32(call) or parts is None:
        return None
    before, along, behind = parts
    source, target = (before, 1, along, behind), (before, 1, 1, behind)
    none = (0, 0)
    window = (1, along)
    return Pooling(PoolingAlgorithm.AVERAGE, source, target, window, (1, 1), none, none)


def _parts(shape: Shape, axes: list[int]) -> Shape | None:
    """Return the elements before the axes, along them and behind them.

    Gives None where the axes lie apart or there is no more than one element behind them.
    """
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return None
    ends = axes[0], axes[-1] + 1
    before, along, behind = shape[: ends[0]], shape[slice(*ends)], shape[ends[1] :]
    parts = math.prod(before), math.prod(along), math.prod(behind)
    return parts if parts[2] > 1 else None
