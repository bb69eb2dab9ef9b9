"""Reductions over axes that lie side by side, in float32.

Over the last axes the library has a reduction of its own. Over others it has but its generic code
for that; there, means and maxima are poolings with one window over all of them.
"""

from __future__ import annotations

import math

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import Arg, PoolingAlgorithm, ReductionAlgorithm
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import dense
from dovetail_onednn.pooling import Pooling
from dovetail_onednn.primitives import Attributes, PrimitiveDesc
from dovetail_onednn.steps import Places, is_float32, is_slow

_POOLINGS = {
    ReductionAlgorithm.MEAN: PoolingAlgorithm.AVERAGE,
    ReductionAlgorithm.MAXIMUM: PoolingAlgorithm.MAXIMUM,
}


def reduce_mean(call: KernelCall) -> Step | None:
    """Runs ReduceMean; see `Kernel.make`."""
    return _reduced(call, ReductionAlgorithm.MEAN)


def reduce_sum(call: KernelCall) -> Step | None:
    """Runs ReduceSum; see `Kernel.make`."""
    return _reduced(call, ReductionAlgorithm.SUM)


def reduce_max(call: KernelCall) -> Step | None:
    """Runs ReduceMax; see `Kernel.make`."""
    return _reduced(call, ReductionAlgorithm.MAXIMUM)


def reduce_min(call: KernelCall) -> Step | None:
    """Runs ReduceMin; see `Kernel.make`."""
    return _reduced(call, ReductionAlgorithm.MINIMUM)


def _reduced(call: KernelCall, algorithm: ReductionAlgorithm) -> Step | None:
    parts = _parts(call.spec(0).shape, sorted(int(axis) for axis in call.op.axes))
    if not is_float32(call) or parts is None:
        return None
    before, along, behind = parts
    if behind == 1:
        return _of_rows(call, algorithm, before, along)
    if algorithm not in _POOLINGS:
        return None
    source, target = (before, 1, along, behind), (before, 1, 1, behind)
    none, size = (0, 0), (1, along)
    return Pooling(_POOLINGS[algorithm], source, target, size, (1, 1), none, none).step(call)


def _parts(shape: Shape, axes: list[int]) -> Shape | None:
    """Gives the elements before the axes, along them and behind them; None where they lie apart."""
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return None
    return tuple(
        math.prod(part)
        for part in (shape[: axes[0]], shape[axes[0] : axes[-1] + 1], shape[axes[-1] + 1 :])
    )


def _of_rows(call: KernelCall, algorithm: ReductionAlgorithm, rows: int, width: int) -> Step | None:
    source, target = dense((rows, width)), dense((rows, 1))
    with (
        Attributes() as attributes,
        PrimitiveDesc(
            "reduction",
            engine(),
            algorithm,
            source,
            target,
            0.0,
            0.0,
            attributes,
            description=f"a float32 {algorithm.name.lower()} of the rows of {source.key}",
        ) as desc,
    ):
        if is_slow(desc):
            return None
        places = Places(call, desc)
        places.read(Arg.SOURCE, 0, source)
        places.write(Arg.DESTINATION, 0, target)
        return places.step()
