"""Sums and means of levels, and of products of two tensors' levels.

    acc = sum, exact;   v = float32(acc) * m + z,   m = float32(s / (n * s'))

for tensors of up to 16 bits, `n` the number of elements of a mean and `s` the scale of the data, or
the product of both scales. Others are computed in float64 and settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail_numpy.integer.binary import by_reference
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.grid import is_defined, is_fixed, is_single, is_tabular, stored_of
from dovetail_numpy.integer.norms import moments
from dovetail_numpy.integer.rescaling import LARGEST_MULTIPLIER, Rescale, grid_of, levels

_POOLS = ("PoolAvg2d", "PoolAvg3d")
SUMS = ("ReduceSum", "ReduceMean", "CumulativeSum", "Correlation1D", *_POOLS)
_MOMENTS = "Moments"

# From the levels of each tensor to sums.
Sum = Callable[..., Array]


def sum_rescale(view: NodeView, count: Array) -> Rescale | None:
    """Return the rescaling of sums of levels to the first result, None if it is in float64.

    That is so unless float32 holds all levels, see `is_single`.

    Args:
        view: The node; levels of its one input, or products of levels of its two, are added.
        count: The number of elements of each mean, broadcastable to the result; 1 for sums.
    """
    out = view.outs[0]
    if not all(spec is not None and is_single(spec) for spec in (*view.ins, out)):
        return None
    step, zero, limits = grid_of(out)
    multiplier = np.minimum(_scale(view) / (count * step), LARGEST_MULTIPLIER)
    return Rescale(multiplier.astype(np.float32), np.zeros((), np.float32), zero, limits)


def _supports(view: NodeView) -> bool:
    return all(is_fixed(spec) for spec in view.ins) and is_defined(view)


@DEFINITIONS.prepares(*SUMS, supports=_supports)
def sums(view: NodeView) -> Run:
    """Add levels, and rescale the sums."""
    (out,) = view.outs
    if not all(spec is not None and is_tabular(spec) for spec in view.ins):
        return by_reference(view, settled=True)
    add, count = _pool(view) if view.op_type in _POOLS else _sum(view)
    rescale, scale = sum_rescale(view, count), _scale(view)

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        acc = add(*_levels(view, ins))
        if rescale is not None:
            return [rescale.apply(acc, out)]
        return [stored_of(np.asarray(acc * scale / count), out, settled=True)]

    return run


@DEFINITIONS.prepares(_MOMENTS, supports=_supports)
def mean_and_variance(view: NodeView) -> Run:
    """Rescale sums to means; compute variances in float64 from exact sums of squares."""
    (x,), (mean, variance) = view.ins, view.outs
    if x is None or not is_tabular(x):
        return by_reference(view, settled=True)
    axes = tuple(int(axis) for axis in view.op.axes)
    count = math.prod(x.shape[axis] for axis in axes)
    rescale, scale = sum_rescale(view, np.asarray(float(count))), _scale(view)

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        (level,) = _levels(view, ins)
        acc = level.sum(axis=axes).reshape(mean.shape)
        if rescale is not None:
            means = rescale.apply(acc, mean)
        else:
            means = stored_of(np.asarray(acc * scale / count), mean, settled=True)
        spread = np.zeros(variance.shape)
        if level.size:
            spread = moments(level.astype(np.int64), axes)[1].reshape(variance.shape)
        return [means, stored_of(np.asarray(spread * (scale * scale)), variance, settled=True)]

    return run


def _scale(view: NodeView) -> float:
    return math.prod(grid_of(spec)[0] for spec in view.ins if spec is not None)


def _levels(view: NodeView, ins: Sequence[Array | None]) -> list[Array]:
    pairs = zip(ins, view.ins, strict=True)
    return [levels(x, spec) for x, spec in pairs if x is not None and spec is not None]


def _sum(view: NodeView) -> tuple[Sum, Array]:
    """Return exact sums, and the number of elements by which the op divides them."""
    schema, op = view.definition
    x, count = view.ins[0], 1
    if x is not None and view.op_type == "ReduceMean":
        count = math.prod(x.shape[int(axis)] for axis in view.op.axes)
    if x is not None and view.op_type == "Correlation1D":
        count = max(x.shape[-1], 1)

    def add(*level: Array) -> Array:
        (found,) = schema.reference(op, level, view.outs)
        # a mean times its count is off by less than half
        return np.asarray(np.rint(found * count))

    return add, np.asarray(float(count))


def _pool(view: NodeView) -> tuple[Sum, Array]:
    """Return sums of windows by the op that divides by their size, and their divisors."""
    schema, op = view.definition
    (x,) = view.ins
    if x is None:
        raise AssertionError(f"{view.node.where} lacks its data")
    size = math.prod(int(n) for n in view.op.filter_size)
    whole = type(op)(**{**vars(op), "count_pad_for_edges": True})

    def add(level: Array) -> Array:
        (found,) = schema.reference(whole, [level], view.outs)
        return np.asarray(np.rint(found * size))

    if view.op.count_pad_for_edges:
        return add, np.asarray(float(size))
    return add, np.maximum(add(np.ones((1, *x.shape[1:-1], 1))), 1)
