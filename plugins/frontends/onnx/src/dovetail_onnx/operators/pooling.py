"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dovetail.ir import DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, operand, sqrt
from dovetail_onnx.operators._maxima import places_of_maxima
from dovetail_onnx.operators._signs import is_nonnegative
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._windows import window_of
from dovetail_opset.importing.dilated import (
    element_counts,
    needs_slices,
    padded,
    pooled_by_slices,
    thinned,
)
from dovetail_opset.importing.layout import spatial_input, spatial_output
from dovetail_opset.importing.windows import Window, cropped


@ONNX.importer("MaxPool", versions=(1, 8, 10, 11, 12, 22))
def max_pool(op: OpContext) -> Sequence[Tensor | None]:
    """PoolMax2d or 3d, whose padding is 0: if 0 could be the maximum, pad with the lowest value.

    No pooling op has dilation: unless strides make it unnecessary, a dilated window is the maximum
    of slices. Indices of the maxima, which no op returns, are found among slices.
    """
    x, window = _input(op)
    places = _places(op, x, window) if op.is_output_used(1) else None
    if window.is_dilated:
        x, window = cropped(op, x, window.covering(x.shape[1:-1]))
        least = _least(x.dtype)
        if needs_slices(window):
            maxima = pooled_by_slices(op, x, window, "ElementWiseMaximum", least)
            return [_output(op, maxima), places]
        x, window = thinned(op, *_padded(op, x, window, least))
        return [_output(op, _pool(op, "PoolMax", x, window)), places]
    x, window = cropped(op, x, window.fitted(x.shape[1:-1]))
    if window.is_padded and not is_nonnegative(op.graph, x):
        x, window = _padded(op, x, window, _least(x.dtype))
    return [_output(op, _pool(op, "PoolMax", x, window)), places]


def _places(op: OpContext, x: Tensor, window: Window) -> Tensor:
    """Emit the second output of MaxPool."""
    if not x.dtype.is_float:  # the padding must be less than any element
        x = op.step("wide", "Cast", [x], spec=Spec(DType.INT_32, x.shape))
    x, covering = cropped(op, x, window.covering(x.shape[1:-1]))
    x, covering = _padded(op, x, covering, _least(x.dtype))
    given = window_of(op, op.attr.integers("kernel_shape") or (), op.spec(0).shape[2:])
    return places_of_maxima(op, x, covering, given)


@ONNX.importer("AveragePool", versions=(1, 7, 10, 11, 19, 22))
def average_pool(op: OpContext) -> Tensor:
    """PoolAvg2d or 3d; ONNX never counts elements beyond the padding, which may become explicit.

    The mean of a dilated window is the sum of slices, divided by how many elements it has.
    """
    counts_padding = bool(op.attr.integer("count_include_pad", 0))
    x, window = _input(op)
    if window.is_dilated:
        spatial = x.shape[1:-1]
        windows = window.counts(spatial)
        op.reserve_constant((2, *windows))  # twice for a moment
        for count, taps in zip(windows, window.kernel, strict=True):
            op.check_size((2, count, taps))  # of 64 bits
        counts = element_counts(window, spatial, padding=counts_padding)
        x, window = cropped(op, x, window.covering(spatial))
        sums = pooled_by_slices(op, x, window, "ElementWiseAdd", 0.0)
        return _output(op, (Expr(op, sums) / counts[None, ..., None]).tensor)
    x, window = cropped(op, x, window.fitted(x.shape[1:-1]))
    if counts_padding and window.ceil:
        x, window = _padded(op, x, window, 0.0)
        counts_padding = False
    return _output(op, _pool(op, "PoolAvg", x, window, count_pad=counts_padding))


@ONNX.importer("LpPool", versions=(2, 11, 18, 22))
def lp_pool(op: OpContext) -> Tensor:
    """L2Pool2d if p is 2 and it applies, else the root of means of powers times their number."""
    x, window = _input(op)
    order = _order(op)
    # zeros after the padding add nothing
    x, window = cropped(op, x, window.covering(x.shape[1:-1]))
    if order == 2 and len(window.kernel) == 2 and not window.is_dilated:
        return _output(op, _pool(op, "L2Pool", x, window))
    powers = _powers(Expr(op, x), order).tensor
    if window.is_dilated:
        sums = pooled_by_slices(op, powers, window, "ElementWiseAdd", 0.0)
    else:
        means = _pool(op, "PoolAvg", powers, window, count_pad=True)
        sums = (Expr(op, means) * [math.prod(window.kernel)]).tensor
    return _output(op, _roots(Expr(op, sums), order).tensor)


@ONNX.importer("GlobalAveragePool", versions=(1, 22))
def global_average_pool(op: OpContext) -> Tensor:
    """PoolAvg2d with a window over everything, or ReduceMean for other than two dimensions."""
    return _global(op, "PoolAvg", "ReduceMean")


@ONNX.importer("GlobalMaxPool", versions=(1, 22))
def global_max_pool(op: OpContext) -> Tensor:
    """PoolMax2d with a window over everything, or ReduceMax for other than two dimensions."""
    return _global(op, "PoolMax", "ReduceMax")


@ONNX.importer("GlobalLpPool", versions=(2, 22))
def global_lp_pool(op: OpContext) -> Tensor:
    """L2Pool2d with a window over everything, or the root of ReduceSum of powers."""
    order = _order(op)
    rank = len(op.spec(0).shape)
    if order == 2 and rank == 4:
        return _global(op, "L2Pool", "")
    powers = _powers(operand(op, 0), order)
    sums = powers.step("ReduceSum", axes=list(range(2, rank)), keep_dims=True)
    return _roots(sums, order).tensor


def _input(op: OpContext) -> tuple[Tensor, Window]:
    """Return the input, channels last and cropped, and the window as ONNX states it."""
    x = spatial_input(op)
    window = window_of(op, op.attr.integers("kernel_shape") or (), op.spec(0).shape[2:])
    return cropped(op, x, window)


def _output(op: OpContext, y: Tensor) -> Tensor:
    return spatial_output(op, y, len(op.spec(0).shape))


def _pool(
    op: OpContext, family: str, x: Tensor, window: Window, *, count_pad: bool | None = None
) -> Tensor:
    return op.step(
        "channels_last",
        f"{family}{len(window.kernel)}d",
        [x],
        filter_size=window.kernel,
        stride=window.strides,
        pad_amount=window.pads,
        rounding_mode=None if family == "L2Pool" else int(window.ceil),
        count_pad_for_edges=count_pad,
    )


def _padded(op: OpContext, x: Tensor, window: Window, value: float) -> tuple[Tensor, Window]:
    bare = replace(window, pads=((0, 0),) * len(window.pads))
    return padded(op, x, window.pads, value), bare


def _least(dtype: DType) -> float:
    """Return the minimum finite value of a type, as far as the param's FLOAT_32 goes."""
    if not dtype.is_float:
        return float(dtype.stored_range()[0])
    narrow = np.float16 if dtype is DType.FLOAT_16 else np.float32
    return float(np.finfo(narrow).min)


def _order(op: OpContext) -> int:
    order = op.attr.integer("p", 2)
    if order < 1:
        raise op.invalid(f"p must be at least 1, got {order}")
    return order


def _powers(x: Expr, order: int) -> Expr:
    if order == 2:
        return x * x
    return abs(x) if order == 1 else abs(x) ** [order]


def _roots(sums: Expr, order: int) -> Expr:
    if order == 2:
        return sqrt(sums)
    return sums if order == 1 else sums ** [1 / order]


def _global(op: OpContext, family: str, reduce: str) -> Tensor:
    shape = op.spec(0).shape
    if len(shape) != 4:
        axes = range(2, len(shape))
        return op.emit(reduce, [op.tensor(0)], axes=list(axes), keep_dims=True)
    flat = ((0, 0), (0, 0))
    return _output(
        op, _pool(op, family, spatial_input(op), Window(shape[2:], (1, 1), (1, 1), flat))
    )
