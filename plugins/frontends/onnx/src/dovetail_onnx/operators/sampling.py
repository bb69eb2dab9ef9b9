"""Sampling at computed positions, and the computation of these."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._cubic import cubic_samples
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import spatial_output
from dovetail_opset.perms import to_last

# Version 16 says bilinear, later ones linear.
_MODES = {"bilinear": 0, "linear": 0, "nearest": 1}
_CUBIC = ("bicubic", "cubic")
_PADDING = {"zeros": 0, "border": 1, "reflection": 2}


@ONNX.importer("GridSample", versions=(16, 20, 22))
def grid_sample(op: OpContext) -> Tensor:
    """GridSample, channels last; cubic interpolation is composed of other ops."""
    rank = len(op.spec(0).shape)
    if rank not in (4, 5):
        raise op.unsupported(f"unsupported input of rank {rank}; expected rank 4 or 5")
    mode = op.attr.text("mode", "linear")
    padding = op.attr.text("padding_mode", "zeros")
    if mode not in (*_MODES, *_CUBIC) or padding not in _PADDING:
        raise op.invalid(f"unsupported mode '{mode}' or padding_mode '{padding}'")
    corners = bool(op.attr.integer("align_corners", 0))
    x, grid = op.arranged(0, to_last(rank)), op.tensor(1)
    if mode in _CUBIC:
        if rank != 4:
            raise op.unsupported(
                f"unsupported mode '{mode}' for other than two spatial dimensions",
                hint="sample linearly",
            )
        return spatial_output(op, cubic_samples(op, x, grid, corners=corners, padding=padding), 4)
    y = op.step(
        "channels_last",
        "GridSample",
        [x, grid],
        align_corners=corners,
        mode=_MODES[mode],
        padding_mode=_PADDING[padding],
    )
    return spatial_output(op, y, rank)


@ONNX.importer("AffineGrid", versions=(20,))
def affine_grid(op: OpContext) -> Tensor:
    """Multiply the grid's positions, which are known, by the transposed matrices."""
    theta, size = op.tensor(0), op.need_ints(1, "size")
    axes = len(size) - 2
    if axes not in (2, 3) or theta.shape != (size[0], axes, axes + 1) or min(size) < 1:
        raise op.invalid(f"matrices {theta.shape} do not match the size {size}")
    op.reserve_constant((*size[2:], axes + 1))
    corners = bool(op.attr.integer("align_corners", 0))
    places = _places(size[2:], corners=corners)
    flat = op.static("places", places.reshape(1, -1, axes + 1), theta.dtype)
    product = op.step("product", "MatMul", [flat, theta], transpose_in1=True)
    return op.emit("Reshape", [product], spec=Spec(theta.dtype, (size[0], *size[2:], axes)))


def _places(extents: tuple[int, ...], *, corners: bool) -> Array:
    """Return (x, y[, z], 1) for each element of an image, from -1 to 1; 0 for a single one."""
    lines = []
    for extent in extents:
        middle = np.arange(extent) - (extent - 1) / 2
        lines.append(middle * 2 / max(extent - 1 if corners else extent, 1))
    grids = np.meshgrid(*lines, indexing="ij")
    return np.stack([*reversed(grids), np.ones(extents)], axis=-1)


@ONNX.importer("CenterCropPad", versions=(18,))
def center_crop_pad(op: OpContext) -> Value:
    """StridedSlice for axes that are too long, Pad with zeros for those that are too short."""
    x = op.tensor(0)
    given = op.attr.integers("axes")
    axes = [op.axis(a, len(x.shape)) for a in (range(len(x.shape)) if given is None else given)]
    target = op.need_ints(1, "shape")
    if len(target) != len(axes) or len(set(axes)) < len(axes) or min(target, default=0) < 0:
        raise op.invalid(f"shape {target} does not match the axes {tuple(axes)}")
    wanted = list(x.shape)
    for axis, extent in zip(axes, target, strict=True):
        wanted[axis] = extent
    op.check_size(tuple(wanted))
    rows, pads = [], []
    for have, want in zip(x.shape, wanted, strict=True):
        cut, missing = max(have - want, 0), max(want - have, 0)
        # the odd element is removed or added at the end
        rows.append((cut // 2, cut // 2 + min(have, want), 1))
        pads.append((missing // 2, missing - missing // 2))
    is_padded = any(map(any, pads))
    is_cut = any(want < have for have, want in zip(x.shape, wanted, strict=True))
    if is_cut and is_padded:
        x = op.step("cut", "StridedSlice", [x], ranges=rows)
    elif is_cut:
        return op.emit("StridedSlice", [x], ranges=rows)
    if is_padded:
        return op.emit("Pad", [x], scheme=0, pad_amount=pads, pad_constant_value=0.0)
    return op.value(0)
