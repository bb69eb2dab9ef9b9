"""Softmax and normalizations: sums of whole numbers, then float64 in a fixed order.

Levels are `q - z`, so that sums of them, of their squares, and of exponentials in fixed point are
exact in any order. What follows is elementwise: additions, multiplications, divisions and square
roots in float64, which every processor rounds alike, and `stored_of` for the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dovetail.ir import Array, ScaleOffset, Spec
from dovetail.ops import NodeView
from dovetail.ops.simulate import is_left_open
from dovetail_numpy.integer.definitions import DEFINITIONS
from dovetail_numpy.integer.functions import exp, log
from dovetail_numpy.integer.grid import is_fixed, is_tabular, real_of, stored_of

_SOFTMAXES = ("Softmax", "LogSoftmax")
_CENTERED = ("LayerNorm", "InstanceNorm", "GroupNorm")
_PLAIN = ("RmsNorm", "L2Norm")
NORMS = (*_SOFTMAXES, *_CENTERED, *_PLAIN, "Lrn")

# Bits after the point of the exponentials of softmax.
_POWER_BITS = 35

Axes = tuple[int, ...]


def has_grid(view: NodeView) -> bool:
    """Return whether the data have one scale above 0 and a zero point in range."""
    data, others = view.ins[0], (*view.ins[1:], *view.outs)
    if data is None or not is_tabular(data) or not isinstance(data.encoding, ScaleOffset):
        return False
    low, high = data.dtype.stored_range()
    is_sound = data.encoding.scale > 0 and low <= -data.encoding.offset <= high
    return is_sound and all(s is None or _is_real(s) for s in others)


def scale_of(spec: Spec) -> float:
    """Return the scale of a tensor that has one."""
    if not isinstance(spec.encoding, ScaleOffset):
        raise AssertionError("a tensor without one scale")
    return spec.encoding.scale


def single(param: float) -> float:
    """Return a param as QNN stores it, rounded to float32."""
    return float(np.float32(param))


def whole_levels(stored: Array, spec: Spec) -> Array:
    """Return `q - z` as int64."""
    if not isinstance(spec.encoding, ScaleOffset):
        raise AssertionError("a tensor without one scale")
    return stored.astype(np.int64) + spec.encoding.offset


@lru_cache(maxsize=32)
def power_table(step: float, size: int) -> Array:
    """Return `rint(2**35 * e**(-step * d))` for each d below `size`, int64, read-only."""
    table = np.rint(exp(-step * np.arange(size, dtype=np.float64)) * 2.0**_POWER_BITS)
    table = table.astype(np.int64)
    table.flags.writeable = False
    return table


@DEFINITIONS.defines(*_SOFTMAXES, supports=has_grid)
def softmax(view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Divide exponentials in fixed point by their sum, or subtract the logarithm of the sum."""
    stored, spec = _data(view, ins)
    op, axis = view.op, view.op.axis
    if not stored.size:
        return [stored_of(np.zeros(stored.shape), view.outs[0])]
    q = stored.astype(np.int64)
    distance = q.max(axis, keepdims=True) - q if op.beta >= 0 else q - q.min(axis, keepdims=True)
    step = abs(single(op.beta)) * scale_of(spec)
    powers = power_table(step, 1 << spec.dtype.bits)[distance]
    total = powers.sum(axis, keepdims=True, dtype=np.int64)
    if view.op_type == "Softmax":
        return [stored_of(powers / total, view.outs[0])]
    logarithm = log(total / 2.0**_POWER_BITS)
    return [stored_of(-(step * distance) - logarithm, view.outs[0])]


@DEFINITIONS.defines(*_CENTERED, supports=has_grid)
def centered_norm(view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Subtract the mean and divide by the deviation; InstanceNorm may do one of them alone."""
    stored, spec = _data(view, ins)
    shape = stored.shape
    levels = whole_levels(stored, spec)
    axes = _axes(view)
    if view.op_type == "GroupNorm":
        groups = view.op.group
        levels = (
            levels.reshape(shape[0], -1, groups, shape[-1] // groups) if stored.size else levels
        )
    if not stored.size:
        real = levels.astype(np.float64)
    elif view.op_type == "InstanceNorm" and view.op.mode.name == "RMS":
        real = _ratio(levels, _root(np.square(levels).sum(axes, keepdims=True), view, spec))
    else:
        real, variance = moments(levels, axes)
        if view.op_type == "InstanceNorm" and not view.op.normalize_variance:
            real = real * scale_of(spec)
        else:
            real = _ratio(real, _root(variance, view, spec))
    return [_scaled(real.reshape(shape), view, ins)]


@DEFINITIONS.defines(*_PLAIN, supports=has_grid)
def plain_norm(view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Divide by the root of the sum or of the mean of squares."""
    stored, spec = _data(view, ins)
    levels = whole_levels(stored, spec)
    axes = _axes(view)
    squares = np.square(levels).sum(axes, keepdims=True)
    if view.op_type == "L2Norm":
        norm = np.maximum(
            np.sqrt(squares.astype(np.float64)), single(view.op.epsilon) / scale_of(spec)
        )
    else:
        count = max(levels.size // max(squares.size, 1), 1)
        norm = _root(squares / count, view, spec)
    return [_scaled(_ratio(levels, norm), view, ins)]


def _is_lrn(view: NodeView) -> bool:
    return has_grid(view) and view.op.alpha >= 0 and view.op.bias > 0


@DEFINITIONS.defines("Lrn", supports=_is_lrn)
def local_response(view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Divide by a power of a sum of squares in the neighborhood."""
    stored, spec = _data(view, ins)
    op, scale = view.op, scale_of(spec)
    levels = whole_levels(stored, spec)
    total = np.square(levels)
    for axis in op.axes(stored.ndim) if stored.size else ():
        radius = min(op.radius, stored.shape[axis] - 1)
        padding = [(radius, radius) if a == axis else (0, 0) for a in range(stored.ndim)]
        total = sliding_window_view(np.pad(total, padding), 2 * radius + 1, axis).sum(-1)
    return [stored_of(response(op, scale, levels, total), view.outs[0])]


def response(op: Any, scale: float, levels: Array, sums: Array) -> Array:
    """Return the real results of Lrn for levels and the sums of squared levels around them."""
    base = single(op.bias) + single(op.alpha) * scale * scale * sums
    return np.asarray(levels * scale * exp(-single(op.beta) * log(base)))


def moments(levels: Array, axes: Axes) -> tuple[Array, Array]:
    """Return levels minus their mean, and their variance, float64; see `mean_and_variance`.

    Args:
        levels: int64, not empty.
        axes: Axes of the mean.
    """
    total, squares = (each.sum(axes, keepdims=True) for each in (levels, np.square(levels)))
    floor, share, variance = mean_and_variance(total, squares, levels.size // total.size)
    return levels - floor - share, variance


def mean_and_variance(sums: Array, squares: Array, count: int) -> tuple[Array, Array, Array]:
    """Return the floor of means of levels, what the means have above it, and the variances.

    With k the floor and r the remainder of the sum, the sum of the squares of `l - k` is exact, and
    the variance is `sum / n - (r / n)**2`.

    Args:
        sums: Sums of levels, int64.
        squares: Sums of their squares, int64.
        count: Number of levels in each.
    """
    floor, rest = np.divmod(sums, count)
    share = rest / count
    centered = squares - 2 * floor * sums + count * floor * floor
    return floor, share, centered / count - share * share


def _ratio(levels: Array, norm: Array) -> Array:
    """Return levels over their norm; 0 where both are 0."""
    return np.asarray(levels / np.where(norm == 0, 1.0, norm))


def _root(squares: Array, view: NodeView, spec: Spec) -> Array:
    """Return the root of squares of levels plus epsilon, in levels."""
    scale = scale_of(spec)
    with np.errstate(over="ignore"):
        return np.asarray(np.sqrt(squares + single(view.op.epsilon) / (scale * scale)))


def _scaled(real: Array, view: NodeView, ins: Sequence[Array | None]) -> Array:
    """Return stored values of real ones times gamma plus beta, where they are given."""
    for stored, spec, apply in zip(ins[1:3], view.ins[1:3], (np.multiply, np.add), strict=False):
        if stored is not None and spec is not None:
            factor = real_of(stored, spec)
            if view.op_type in ("LayerNorm", "RmsNorm"):
                factor = _spread(factor, _axes(view), real.ndim)
            real = apply(real, factor)
    return stored_of(real, view.outs[0])


def _spread(values: Array, axes: Axes, rank: int) -> Array:
    """Return a tensor over axes in full rank, so that it broadcasts."""
    sizes = iter(values.transpose(np.argsort(axes)).shape)
    ordered = values.transpose(np.argsort(axes))
    return ordered.reshape([next(sizes) if i in axes else 1 for i in range(rank)])


def _axes(view: NodeView) -> Axes:
    match view.op_type:
        case "GroupNorm":
            return (1, 3)
        case "InstanceNorm":
            return tuple(view.op.axes(len(view.outs[0].shape)))
        case "L2Norm":
            return tuple(view.op.over())
        case _:
            return tuple(int(a) for a in view.op.axes)


def _data(view: NodeView, ins: Sequence[Array | None]) -> tuple[Array, Spec]:
    stored, spec = ins[0], view.ins[0]
    if stored is None or spec is None:
        raise AssertionError(f"{view.node.where} lacks its input")
    return stored, spec


def _is_real(spec: Spec) -> bool:
    """Return whether a tensor has real values: a float type, or fixed-point with an encoding."""
    if spec.dtype.is_float:
        return True
    return is_fixed(spec) and not is_left_open(spec)
