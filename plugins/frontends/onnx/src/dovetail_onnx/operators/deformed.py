"""DeformConv: samples at computed positions, multiplied by the filters."""

from __future__ import annotations

import math

import numpy as np

from dovetail.errors import counted
from dovetail.ir import Array, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, operand
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._windows import window_of
from dovetail_onnx.operators.convolution import check_filters
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import reshaped
from dovetail_opset.importing.windows import Window

_LINEAR, _ZEROS = 0, 0  # GridSample's mode and padding


@ONNX.importer("DeformConv", versions=(19, 22))
def deform_conv(op: OpContext) -> Value:
    """GridSample for every element of every window, then one MatMul for each group of filters."""
    x, weight = op.spec(0).shape, op.spec(1).shape
    if len(x) != 4:
        raise op.unsupported(f"unsupported input of rank {len(x)}; expected an image of rank 4")
    check_filters(op, x, weight)
    parts = op.attr.integer("offset_group", 1)
    window = window_of(op, weight[2:], x[2:])
    if parts < 1 or x[1] % parts:
        channels, groups = counted(x[1], "channel"), counted(parts, "offset group")
        raise op.invalid(f"{channels} cannot be split into {groups}")
    size = window.counts(x[2:])
    taps = math.prod(window.kernel)
    op.reserve_constant((2, 2, taps, *size))  # of 64 bits
    wanted = (x[0], parts * taps * 2, *size)
    if op.spec(2).shape != wanted:
        raise op.invalid(f"offsets must have shape {wanted}, got {op.spec(2).shape}")
    samples = _samples(op, _grid(op, window, parts, taps, size), parts, taps, size)
    return _product(op, samples, size)


def _grid(op: OpContext, window: Window, parts: int, taps: int, size: Shape) -> Tensor:
    """Return the position of each sample, (n * parts, taps, positions, 2), x first."""
    height, width = op.spec(0).shape[2:]
    # GridSample counts from -1 to 1, the outer edges of the first and last pixel
    scale = np.asarray([2 / width, 2 / height])
    offsets = reshaped(
        op, "offsets", op.tensor(2), (op.spec(0).shape[0] * parts, taps, 2, math.prod(size))
    )
    turned = op.step("turned", "Transpose", [offsets], perm=(0, 1, 3, 2))
    # ONNX has the rows first
    order = [(0, n, 1) for n in turned.shape[:-1]]
    halves = [
        op.step("half", "StridedSlice", [turned], ranges=[*order, (i, i + 1, 1)]) for i in (1, 0)
    ]
    pairs = op.step("pairs", "Concat", halves, axis=3)
    regular: Array = _places(window, size) * scale + scale / 2 - 1
    return (Expr(op, pairs) * scale + regular).tensor


def _places(window: Window, size: Shape) -> Array:
    """Return (column, row) of each element of each window without offsets, (taps, positions, 2)."""
    axes = [
        np.add.outer(
            np.arange(window.kernel[i]) * window.dilations[i],
            np.arange(size[i]) * window.strides[i] - window.pads[i][0],
        )
        for i in (0, 1)
    ]
    shape = (window.kernel[0], window.kernel[1], size[0], size[1])
    rows = np.broadcast_to(axes[0][:, None, :, None], shape)
    columns = np.broadcast_to(axes[1][None, :, None, :], shape)
    return np.stack([columns, rows], -1).reshape(math.prod(window.kernel), math.prod(size), 2)


def _samples(op: OpContext, grid: Tensor, parts: int, taps: int, size: Shape) -> Tensor:
    """Return the samples, weighted by the mask, (n, positions, channels, taps)."""
    n, channels, height, width = op.spec(0).shape
    each, places = channels // parts, math.prod(size)
    apart = reshaped(op, "apart", op.tensor(0), (n * parts, each, height, width))
    last = op.step("channels_last", "Transpose", [apart], perm=(0, 2, 3, 1))
    found = op.step(
        "sampled",
        "GridSample",
        [last, grid],
        align_corners=False,
        mode=_LINEAR,
        padding_mode=_ZEROS,
    )
    if op.has(4):
        mask = reshaped(op, "mask", op.tensor(4), (n * parts, taps, places, 1))
        found = (Expr(op, found) * mask).tensor
    grouped = reshaped(op, "grouped", found, (n, parts, taps, places, each))
    moved = op.step("ordered", "Transpose", [grouped], perm=(0, 3, 1, 4, 2))
    return reshaped(op, "by_channel", moved, (n, places, channels, taps))


def _product(op: OpContext, samples: Tensor, size: Shape) -> Value:
    """Emit the sums over channels and taps of each group, (n, filters, ...)."""
    n, places, channels, taps = samples.shape
    filters, groups = op.spec(1).shape[0], op.attr.integer("group", 1)
    each = channels // groups * taps
    rows = reshaped(op, "rows", samples, (n, places, groups, each))
    by_group = op.step("by_group", "Transpose", [rows], perm=(0, 2, 3, 1))
    weights = reshaped(op, "weights", op.tensor(1), (1, groups, filters // groups, each))
    sums = op.step("sums", "MatMul", [weights, by_group])
    shape = (n, filters, *size)
    if not op.has(3):
        return op.emit("Reshape", [sums], spec=Spec(sums.dtype, shape))
    bias = operand(op, 3).reshaped((filters, 1, 1))
    return (Expr(op, sums).reshaped(shape) + bias).emit()
