"""Sampling of images at positions that are data: grids, boxes, projections."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import BatchAxis, In, Op, bool8, choice, float32, tensor
from dovetail_opset._package import PACKAGE
from dovetail_opset._sampling import interpolated, nearest, reflected
from dovetail_opset._shapes import computed, ints, need_rank, need_shape

_INDEX_TYPES = (DType.INT_32, DType.UINT_32)


class GridMode(enum.IntEnum):
    """Interpolation between the elements."""

    BILINEAR = 0
    NEAREST = 1


class GridPadding(enum.IntEnum):
    """Values beyond the border."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2


class ImageMode(enum.IntEnum):
    """Interpolation between the elements."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1


@PACKAGE.op("GridSample")
class GridSample(Op):
    """Elements of an image at the positions of a grid, as in PyTorch.

    x: (n, h, w, c) or (n, d, h, w, c); grid: (n, oh, ow, 2) with positions (x, y) or (n, od, oh,
    ow, 3) with (x, y, z). Returns (n, ..., c) with the sizes of the grid. -1 and 1 are the outer
    edges of the first and last element, or their centers with align_corners; REFLECTION mirrors
    there. NEAREST rounds half to even. A NaN position is outside, before the first element.
    """

    inputs = (In("in[0]"), In("in[1]"))
    batch_axis = BatchAxis.FIRST
    batch_inputs = (0, 1)
    source = "spec/qnn_ops.md, GridSample; ONNX operator GridSample-22"

    align_corners = bool8(False)
    mode = choice(GridMode, GridMode.BILINEAR)
    padding_mode = choice(GridPadding, GridPadding.ZEROS)

    def infer(self, x: Spec, grid: Spec, out: Spec | None) -> Spec:
        rank = len(x.shape)
        if rank not in (4, 5):
            raise OpError(f"in[0] must have rank 4 or 5, but its shape is {x.shape}")
        wanted = (x.shape[0], *grid.shape[1:-1], rank - 2)
        if len(grid.shape) != rank or grid.shape != wanted:
            raise OpError(
                f"the grid in[1] {grid.shape} must have rank {rank}, batch {x.shape[0]} and "
                f"{rank - 2} coordinates in its last dimension for in[0] {x.shape}"
            )
        if 0 in x.shape[1:-1] and 0 not in grid.shape:
            raise OpError(f"in[0] {x.shape} has no elements to sample")
        return computed(x, (*grid.shape[:-1], x.shape[-1]), out)

    def reference(self, x: Array, grid: Array, out: Spec) -> Array:
        if 0 in out.shape:
            return np.zeros(out.shape, x.dtype)
        kind = np.result_type(grid.dtype, np.float32)
        # the grid names the last axis first
        positions = [
            self._positions(grid[..., -1 - i].astype(kind), size)
            for i, size in enumerate(x.shape[1:-1])
        ]
        batch = np.arange(len(x)).reshape(-1, *(1,) * len(positions))
        zeros = self.padding_mode is GridPadding.ZEROS
        if self.mode is GridMode.NEAREST:
            return nearest(x, batch, [np.rint(p) for p in positions], zeros=zeros)
        return interpolated(x, batch, positions, zeros=zeros)

    def _positions(self, grid: Array, size: int) -> Array:
        if self.align_corners:
            positions = (grid + 1) / 2 * (size - 1)
        else:
            positions = ((grid + 1) * size - 1) / 2
        if self.padding_mode is GridPadding.REFLECTION:
            positions = reflected(positions, size, edges=not self.align_corners)
        return positions


@PACKAGE.op("CropAndResize")
class CropAndResize(Op):
    """Boxes cropped from images and resized to one size, as in TensorFlow.

    x: (n, h, w, c); boxes: (m, 4), rows (y1, x1, y2, x2) where 0 and 1 are the centers of the first
    and last element; index: (m,), the image of each box. Returns (m, rh, rw, c). The corners of a
    box are the centers of the corner elements; a single element along an axis is at the center of
    the box. Positions beyond these centers, and NaN, hold extrapolation_value. NEAREST_NEIGHBOR
    rounds half up.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", dtypes=_INDEX_TYPES))

    resize_dims = tensor((2,))
    interpolation_mode = choice(ImageMode, ImageMode.BILINEAR)
    extrapolation_value = float32(0.0)

    def infer(self, x: Spec, boxes: Spec, index: Spec, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        need_rank(index, 1, "the images' index in[2]")
        need_shape(boxes, (index.shape[0], 4), "the boxes in[1]")
        shape = (index.shape[0], *ints(self.resize_dims), x.shape[3])
        if 0 in x.shape[1:3] and 0 not in shape:
            raise OpError(f"in[0] {x.shape} has no elements to resize to {shape}")
        return computed(x, shape, out)

    def reference(self, x: Array, boxes: Array, index: Array, out: Spec) -> Array:
        wrong = index[(index < 0) | (index >= len(x))]
        if wrong.size:
            raise OpError(f"in[2] names image {wrong[0]}, but in[0] has {len(x)} images")
        if 0 in out.shape:
            return np.zeros(out.shape, x.dtype)
        lines = [
            self._line(boxes[:, i], boxes[:, i + 2], x.shape[1 + i], out.shape[1 + i])
            for i in range(2)
        ]
        positions = np.broadcast_arrays(lines[0][:, :, None], lines[1][:, None, :])
        batch = index.astype(np.intp)[:, None, None]
        if self.interpolation_mode is ImageMode.NEAREST_NEIGHBOR:
            found = nearest(x, batch, [np.floor(p + 0.5) for p in positions], zeros=False)
        else:
            found = interpolated(x, batch, positions, zeros=False)
        inside = np.logical_and(
            *((p >= 0) & (p <= n - 1) for p, n in zip(positions, x.shape[1:3], strict=True))
        )
        value = np.asarray(self.extrapolation_value).astype(found.dtype)
        return np.where(inside[..., None], found, value)

    @staticmethod
    def _line(begin: Array, end: Array, size: int, count: int) -> Array:
        """Return the positions along one axis for every box, (boxes, count)."""
        begin, end = ((v[:, None] * (size - 1)) for v in (begin, end))
        if count == 1:
            return np.asarray((begin + end) / 2)
        return np.asarray(
            begin + np.arange(count, dtype=begin.dtype) * ((end - begin) / (count - 1))
        )


@PACKAGE.op("ImageProjectionTransform")
class ImageProjectionTransform(Op):
    """Images after a projective transform, zero beyond their border.

    x: (n, h, w, c); transform: (8,), (1, 8) or (n, 8) values a0, a1, a2, b0, b1, b2, c0, c1. The
    element at (x, y) of the result is that at ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) with
    k = c0 x + c1 y + 1; zero where k is 0 or a position is NaN. NEAREST_NEIGHBOR rounds half away
    from zero.
    """

    inputs = (In("in[0]"), In("in[1]", dtypes=(DType.FLOAT_32,)))
    batch_axis = BatchAxis.FIRST
    batch_inputs = (0, 1)

    interpolation_mode = choice(ImageMode, ImageMode.BILINEAR)

    def infer(self, x: Spec, transform: Spec, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        if transform.shape not in ((8,), (1, 8), (x.shape[0], 8)):
            raise OpError(
                f"the transform in[1] must be (8,), (1, 8) or ({x.shape[0]}, 8), but its shape is "
                f"{transform.shape}"
            )
        return computed(x, x.shape, out)

    def reference(self, x: Array, transform: Array) -> Array:
        if not x.size:
            return x
        a0, a1, a2, b0, b1, b2, c0, c1 = transform.reshape(-1, 8).T[:, :, None, None]
        n, height, width, _ = x.shape
        row = np.arange(height, dtype=transform.dtype)[:, None]
        column = np.arange(width, dtype=transform.dtype)
        scale = c0 * column + c1 * row + 1
        # where scale is 0 the position becomes nan, which counts as outside
        scale = np.where(scale == 0, np.nan, scale)
        across = (a0 * column + a1 * row + a2) / scale
        down = (b0 * column + b1 * row + b2) / scale
        positions = [np.broadcast_to(p, (n, height, width)) for p in (down, across)]
        batch = np.arange(n)[:, None, None]
        if self.interpolation_mode is ImageMode.NEAREST_NEIGHBOR:
            away = [np.trunc(p + np.copysign(0.5, p)) for p in positions]
            return nearest(x, batch, away, zeros=True)
        return interpolated(x, batch, positions, zeros=True)
