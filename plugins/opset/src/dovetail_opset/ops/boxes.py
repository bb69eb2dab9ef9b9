"""Refinement of boxes by deltas."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op, Out, bool8, float32, tensor
from dovetail_opset._boxes import (
    STRETCH_LIMIT,
    centered,
    clipped,
    cornered,
    moved_boxes,
    need_box_rows,
    need_images,
)
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_float, need_shape

_FLOAT = DType.FLOAT_32


def _need_deltas(deltas: Spec, rois: Spec, columns: int) -> None:
    need_float(rois, "in[0]")
    need_float(deltas, "in[1]")
    count = need_box_rows(rois, "in[0]", columns)
    if len(deltas.shape) != 2 or deltas.shape[0] != count or deltas.shape[1] % columns:
        raise OpError(
            f"in[1] must be ({count}, classes * {columns}), one row per box of in[0], but its "
            f"shape is {deltas.shape}"
        )


def _need_sizes(image: Spec, columns: int, what: str) -> None:
    if len(image.shape) != 2 or image.shape[1] != columns:
        raise OpError(f"{what} must be (images, {columns}), but its shape is {image.shape}")


@PACKAGE.op("AxisAlignedBboxTransform")
class AxisAlignedBboxTransform(Op):
    """Boxes moved and stretched by deltas per class, clipped to their image.

    rois: (n, 4), rows x1, y1, x2, y2; deltas: (n, classes * 4), each dx, dy, dw, dh; batch index:
    (n,), INT_32, the image of each box; image size: (images, 2), rows height, width. The deltas are
    divided by `weights`; dx and dy are fractions of the box's size, dw and dh natural logarithms of
    the stretch, which is not bounded. Returns the boxes, (n, classes * 4), and the number of boxes
    in each image, (images,).
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", (DType.INT_32,)), In("in[3]"))
    outputs = (Out("out[0]"), Out("out[1]", (DType.INT_32,), optional=True))
    source = "spec/qnn_ops.md, AxisAlignedBboxTransform; NNAPI AXIS_ALIGNED_BBOX_TRANSFORM"

    weights = tensor((4,), (1.0, 1.0, 1.0, 1.0), dtype=_FLOAT)

    def infer(
        self,
        rois: Spec,
        deltas: Spec,
        batch: Spec,
        image: Spec,
        out: Spec | None,
        splits: Spec | None,
    ) -> tuple[Spec, Spec]:
        _need_deltas(deltas, rois, 4)
        need_shape(batch, rois.shape[:1], "in[2]")
        _need_sizes(image, 2, "in[3]")
        _need_weights(self.weights)
        return computed(rois, deltas.shape, out), Spec(DType.INT_32, image.shape[:1])

    def reference(
        self, rois: Array, deltas: Array, batch: Array, image: Array
    ) -> tuple[Array, Array]:
        images = need_images(batch, len(image))
        center, size = centered(rois[:, None])
        scaled = deltas.reshape(len(rois), deltas.shape[1] // 4, 4) / self.weights
        corners = cornered(*moved_boxes(center, size, scaled))
        boxes = clipped(corners, image[images][:, None])
        return boxes.reshape(deltas.shape), np.bincount(images, minlength=len(image))


@PACKAGE.op("BboxTransform")
class BboxTransform(Op):
    """Rotated boxes moved, stretched and rotated by deltas per class.

    rois: (n, 5), rows center x, center y, width, height, angle in degrees, in a scaled image;
    deltas: (n, classes * 5), each dx, dy, dw, dh, da, the first four divided by `weights`, da in
    radians; image: (images, 3), rows height, width, scale; batch index: (n,), INT_32; without it
    all boxes are in image 0. dx and dy are fractions of the box's size, dw and dh natural
    logarithms of the stretch, at most log(1000 / 16). Returns the boxes, (n, classes * 5), in the
    scaled image with apply_scale, else in the image before scaling; and the number of boxes in each
    image, (images,), by default of the type of the boxes.

    angle_bounds (low, high), a multiple of 180 apart, moves an angle out of these bounds by one
    period; without it angles are not bounded. Boxes rotated by at most angle_clip_threshold degrees
    are clipped to their image; none if that is negative.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]"), In("in[3]", (DType.INT_32,), optional=True))
    outputs = (Out("out[0]"), Out("out[1]"))
    source = "spec/qnn_ops.md, BboxTransform; Caffe2 BBoxTransform"

    weights = tensor((4,), dtype=_FLOAT)
    apply_scale = bool8(True)
    angle_bounds = tensor((2,), None, dtype=DType.INT_32)
    angle_clip_threshold = float32(-1.0)

    def infer(
        self,
        rois: Spec,
        deltas: Spec,
        image: Spec,
        batch: Spec | None,
        out: Spec | None,
        counts: Spec | None,
    ) -> tuple[Spec, Spec]:
        _need_deltas(deltas, rois, 5)
        _need_sizes(image, 3, "in[2]")
        need_shape(batch, rois.shape[:1], "in[3]")
        _need_weights(self.weights)
        bounds = self._bounds()
        if bounds is not None and (bounds[1] <= bounds[0] or (bounds[1] - bounds[0]) % 180):
            raise OpError(f"angle_bounds {bounds} must ascend by a multiple of 180 degrees")
        found = Spec(rois.dtype, image.shape[:1]) if counts is None else counts
        return computed(rois, deltas.shape, out), Spec(found.dtype, image.shape[:1], found.encoding)

    def reference(
        self, rois: Array, deltas: Array, image: Array, batch: Array | None
    ) -> tuple[Array, Array]:
        index = np.zeros(len(rois), np.int64) if batch is None else batch
        images = need_images(index, len(image), "in[3]")
        sizes, scale = image[images, None, :2], image[images, None, 2:]
        given = deltas.reshape(len(rois), deltas.shape[1] // 5, 5)
        scaled = given[..., :4] / self.weights
        scaled[..., 2:] = np.minimum(scaled[..., 2:], STRETCH_LIMIT)
        before = rois[:, None, :4] / scale
        center, size = moved_boxes(before[..., :2], before[..., 2:], scaled)
        angle = self._bounded(rois[:, None, 4:] + np.degrees(given[..., 4:]))
        upright = np.abs(angle) <= self.angle_clip_threshold
        if upright.any():
            whole = np.floor(sizes / scale + 0.5)
            cut = centered(clipped(cornered(center, size), whole))
            center, size = np.where(upright, cut[0], center), np.where(upright, cut[1], size)
        boxes = np.concatenate([center, size], axis=-1)
        boxes = np.concatenate([boxes * scale if self.apply_scale else boxes, angle], axis=-1)
        return boxes.reshape(deltas.shape), np.bincount(images, minlength=len(image))

    def _bounds(self) -> tuple[int, int] | None:
        given: Array | None = self.angle_bounds
        return None if given is None else (int(given[0]), int(given[1]))

    def _bounded(self, angle: Array) -> Array:
        bounds = self._bounds()
        if bounds is None:
            return angle
        low, high = bounds
        turned = np.where(angle < low, angle + (high - low), angle)
        return np.where(angle > high, angle - (high - low), turned)


def _need_weights(weights: Array) -> None:
    if not np.all(weights):
        raise OpError(f"weights {weights.tolist()} divide the deltas, so none may be 0")
