"""Pooling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._layout import spatial_input, spatial_output
from dovetail_onnx.operators._signs import is_nonnegative
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._windows import Window, window_of

_CONSTANT = 0  # Pad's scheme


@ONNX.importer("MaxPool", versions=(1, 8, 10, 11, 12, 22))
def max_pool(op: OpContext) -> Tensor:
    """PoolMax2d, whose padding holds 0: where that could win, the least value is padded before."""
    if op.wants(1):
        raise op.refuse("its second output, the indices of the maxima, cannot be converted")
    x, window = _cropped(op, spatial_input(op), _window(op))
    if window.is_padded and not is_nonnegative(op.graph, x):
        x, window = _padded(op, x, window, _least(x.dtype))
    return _pool(op, "PoolMax2d", x, window)


@ONNX.importer("AveragePool", versions=(1, 7, 10, 11, 19, 22))
def average_pool(op: OpContext) -> Tensor:
    """PoolAvg2d; ONNX never counts what lies beyond the padding, so that may become explicit."""
    counts_padding = bool(op.attr.integer("count_include_pad", 0))
    x, window = _cropped(op, spatial_input(op), _window(op))
    if counts_padding and window.ceil:
        x, window = _padded(op, x, window, 0.0)
        counts_padding = False
    return _pool(op, "PoolAvg2d", x, window, count_pad=counts_padding)


@ONNX.importer("GlobalAveragePool", versions=(1, 22))
def global_average_pool(op: OpContext) -> Tensor:
    """PoolAvg2d with a window over everything, or ReduceMean for other than two dimensions."""
    return _global(op, "PoolAvg2d", "ReduceMean")


@ONNX.importer("GlobalMaxPool", versions=(1, 22))
def global_max_pool(op: OpContext) -> Tensor:
    """PoolMax2d with a window over everything, or ReduceMax for other than two dimensions."""
    return _global(op, "PoolMax2d", "ReduceMax")


def _window(op: OpContext) -> Window:
    spatial = op.spec(0).shape[2:]
    if len(spatial) not in (1, 2):
        spatial_input(op)  # says what is wrong
    window = window_of(op, op.attr.integers("kernel_shape") or (), spatial)
    if window.dilations != (1, 1):
        raise op.refuse(f"its dilations {window.dilations} must be 1: no pooling op has dilation")
    return window.fitted((1,) * (2 - len(spatial)) + spatial)


def _pool(
    op: OpContext, op_type: str, x: Tensor, window: Window, *, count_pad: bool | None = None
) -> Tensor:
    y = op.step(
        "channels_last",
        op_type,
        [x],
        filter_size=window.kernel,
        stride=window.strides,
        pad_amount=window.pads,
        rounding_mode=int(window.ceil),
        count_pad_for_edges=count_pad,
    )
    return spatial_output(op, y, len(op.spec(0).shape))


def _cropped(op: OpContext, x: Tensor, window: Window) -> tuple[Tensor, Window]:
    """Cuts off what no window reaches, where the window's padding is below 0."""
    cut = [max(-after, 0) for _, after in window.pads]
    if not any(cut):
        return x, window
    n, height, width, channels = x.shape
    ends = (n, height - cut[0], width - cut[1], channels)
    x = op.step("cropped", "StridedSlice", [x], ranges=[(0, end, 1) for end in ends])
    pads = tuple((before, max(after, 0)) for before, after in window.pads)
    return x, replace(window, pads=pads)


def _padded(op: OpContext, x: Tensor, window: Window, value: float) -> tuple[Tensor, Window]:
    pads = ((0, 0), *window.pads, (0, 0))
    if window.is_padded:
        x = op.step(
            "padded",
            "Pad",
            [x],
            scheme=_CONSTANT,
            pad_amount=pads,
            pad_constant_value=value,
        )
    return x, replace(window, pads=((0, 0), (0, 0)))


def _least(dtype: DType) -> float:
    """Gives the least finite value of a type, as far as the param's FLOAT_32 goes."""
    if not dtype.is_float:
        return float(dtype.stored_range()[0])
    narrow = np.float16 if dtype is DType.FLOAT_16 else np.float32
    return float(np.finfo(narrow).min)


def _global(op: OpContext, pool: str, reduce: str) -> Tensor:
    shape = op.spec(0).shape
    if len(shape) != 4:
        axes = range(2, len(shape))
        return op.emit(reduce, [op.tensor(0)], axes=list(axes), keep_dims=True)
    flat = ((0, 0), (0, 0))
    return _pool(op, pool, spatial_input(op), Window(shape[2:], (1, 1), (1, 1), flat))
