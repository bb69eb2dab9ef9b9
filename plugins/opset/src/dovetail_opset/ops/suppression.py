"""Non-maximum suppression: removal of boxes that overlap a better box of their class.

An overlap is the intersection of two boxes over their union. Of equal scores the lower index comes
first. The two corners of a box may be any opposite ones. A NaN score exceeds no threshold.
"""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op, Out, choice, float32, int32, uint32
from dovetail_opset._boxes import Boxes, need_boxes_of, need_images
from dovetail_opset._package import PACKAGE
from dovetail_opset._rows import declared_rows, filled
from dovetail_opset._shapes import computed, need_numbers, need_rank, need_shape
from dovetail_opset._suppression import Indices, best_of_classes, falling, soften

_INDEX = (DType.INT_32,)


@PACKAGE.op("NonMaxSuppression")
class NonMaxSuppression(Op):
    """Indices of the boxes kept for each image and class.

    boxes: (n, boxes, 4), rows y1, x1, y2, x2; scores: (n, classes, boxes). Only boxes with scores
    above score_threshold take part; at most max_boxes_selected are kept per class, none for 0, the
    default. Returns (n * classes * max_boxes_selected, 3), rows image, class, box, by image, then
    class, then falling score; the rows after the last are 0. The second output, (1,), is the number
    of valid rows.
    """

    inputs = (In("in[0]"), In("in[1]"))
    outputs = (Out("out[0]", _INDEX), Out("out[1]", (DType.UINT_32,), optional=True))
    source = "spec/qnn_ops.md, NonMaxSuppression; ONNX NonMaxSuppression"

    iou_threshold = float32()
    score_threshold = float32(0.0)
    max_boxes_selected = uint32(0)

    def infer(
        self, boxes: Spec, scores: Spec, out: Spec | None, count: Spec | None
    ) -> tuple[Spec, Spec]:
        need_numbers(boxes, scores)
        need_rank(scores, 3, "in[1]")
        n, classes, each = scores.shape
        need_boxes_of(boxes, scores, (n, each, 4))
        rows = n * classes * self.max_boxes_selected
        return Spec(DType.INT_32, (rows, 3)), Spec(DType.UINT_32, (1,))

    def reference(
        self, boxes: Array, scores: Array, out: Spec, count: Spec | None
    ) -> tuple[Array, Array]:
        found = [np.zeros(0, np.int64)]
        for corners, image in zip(boxes, scores, strict=True):
            limits = self.score_threshold, self.iou_threshold, self.max_boxes_selected
            found += best_of_classes(Boxes.of(corners), image, *limits)
        counts = [len(kept) for kept in found[1:]]
        places = np.divmod(np.repeat(np.arange(len(counts)), counts), max(1, scores.shape[1]))
        rows = np.array([*places, np.concatenate(found)]).T
        return filled(rows, out.shape[0], "boxes"), np.array([len(rows)])


class NmsKernel(enum.IntEnum):
    """Effect of an overlap on a score."""

    HARD = 0
    LINEAR = 1
    GAUSSIAN = 2


@PACKAGE.op("BoxWithNmsLimit")
class BoxWithNmsLimit(Op):
    """The best boxes of each image and class, with scores lowered by overlaps.

    boxes: (n, classes * 4), each x1, y1, x2, y2; scores: (n, classes), class 0 being the
    background, which takes no part; batch index: (n,), INT_32, the image of each row; batch splits:
    (images,), INT_32, of which only the size counts. Rows of one image need not be adjacent.

    Scores above score_threshold take part. Each kept box multiplies the scores of the others of its
    image and class: HARD, by 0 where the overlap is iou_threshold or more; LINEAR, by 1 - overlap
    there; GAUSSIAN, by exp(-overlap^2 / sigma) everywhere. Boxes whose score is then below
    nms_score_threshold, or was multiplied by 0, are dropped. pre_nms_limit is, as in NNAPI, the
    number of boxes kept per class, and per image in the end, the best; below 0, the default, all.

    Returns boxes (m, 4), lowered scores (m,), classes (m,) and images (m,), by image, then class,
    then falling score. m must be declared; the rows after the last are 0, and more than m rows are
    an error. Further outputs are the number of kept boxes per image (images,), the kept rows'
    indices in in[0] (m,), and the number of kept boxes per class (classes,). Where in[3] is
    omitted, the output of numbers per image declares the number of images.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", _INDEX), In("in[3]", _INDEX, optional=True))
    outputs = (
        Out("out[0]"),
        Out("out[1]"),
        Out("out[2]", _INDEX),
        Out("out[3]", _INDEX),
        Out("out[4]", _INDEX, optional=True),
        Out("out[5]", _INDEX, optional=True),
        Out("out[6]", _INDEX, optional=True),
    )
    source = "spec/qnn_ops.md, BoxWithNmsLimit; NNAPI BOX_WITH_NMS_LIMIT; Bodla et al. 2017"

    nms_kernel_method = choice(NmsKernel, dtype=DType.INT_32)
    nms_score_threshold = float32()
    score_threshold = float32(0.0)
    pre_nms_limit = int32(-1)
    iou_threshold = float32()
    sigma = float32()

    def infer(self, ins: Sequence[Spec | None], outs: Sequence[Spec | None]) -> tuple[Spec, ...]:
        boxes, scores, batch, splits = ins
        if boxes is None or scores is None or batch is None:
            raise OpError("only in[3], the batch splits, may be left out")
        need_numbers(boxes, scores)
        need_rank(scores, 2, "in[1]")
        n, classes = scores.shape
        need_boxes_of(boxes, scores, (n, classes * 4))
        need_shape(batch, (n,), "in[2]")
        if self.nms_kernel_method is NmsKernel.GAUSSIAN and self.sigma <= 0:
            raise OpError(f"sigma is {self.sigma}, but must be above 0 for GAUSSIAN")
        rows = declared_rows((*outs[:4], outs[5]), "boxes")
        found = [
            computed(boxes, (rows, 4), outs[0]),
            computed(scores, (rows,), outs[1]),
            Spec(DType.INT_32, (rows,)),
            Spec(DType.INT_32, (rows,)),
        ]
        counts = splits or outs[4]
        if counts is None:
            return tuple(found)  # the number of images is unknown
        need_rank(counts, 1, "in[3]" if splits else "out[4]")
        shapes = (counts.shape, (rows,), (classes,))
        return (*found, *(Spec(DType.INT_32, shape) for shape in shapes))

    def reference(self, ins: Sequence[Array], outs: Sequence[Spec | None]) -> tuple[Array, ...]:
        boxes, scores, batch = ins[:3]
        corners = boxes.reshape(*scores.shape, 4)
        positions, labels, images, values = self._chosen(corners, scores, batch)
        rows = declared_rows(outs, "boxes")
        found = (corners[positions, labels], values, labels, images)
        results = [filled(x, rows, "boxes") for x in found]
        if len(outs) > 4 and outs[4] is not None:
            need_images(batch, outs[4].shape[0])
            by_image = np.bincount(images, minlength=outs[4].shape[0])
            by_class = np.bincount(labels, minlength=scores.shape[1])
            results += [by_image, filled(positions, rows, "boxes"), by_class]
        return tuple(results)

    def _chosen(self, corners: Array, scores: Array, batch: Array) -> tuple[Array, ...]:
        """Return rows, classes, images and lowered scores of the kept boxes."""
        empty = np.zeros(0, np.int64)
        found = [(empty, empty, empty, scores.reshape(-1)[:0])]
        for image in np.unique(batch):
            rows = np.flatnonzero(batch == image)
            positions, labels, values = self._image(corners[rows], scores[rows])
            found.append((rows[positions], labels, np.full(len(positions), image), values))
        return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))

    def _image(self, corners: Array, scores: Array) -> tuple[Indices, Indices, Array]:
        limit = None if self.pre_nms_limit < 0 else self.pre_nms_limit
        positions, labels, values = [], [], []
        for c in range(1, scores.shape[1]):
            candidates = np.flatnonzero(scores[:, c] > self.score_threshold)
            kept, lowered = soften(
                Boxes.of(corners[candidates, c]),
                scores[candidates, c],
                weigh=self._weights,
                stays=lambda lowered: lowered >= self.nms_score_threshold,
                limit=limit,
            )
            positions.append(candidates[kept])
            labels.append(np.full(len(kept), c))
            values.append(lowered)
        none = np.zeros(0, np.int64)
        position, label = np.concatenate([none, *positions]), np.concatenate([none, *labels])
        value = np.concatenate([scores.reshape(-1)[:0], *values])
        best = np.sort(falling(value)[:limit])  # back in the order of classes
        return position[best], label[best], value[best]

    def _weights(self, overlap: Array) -> Array:
        match self.nms_kernel_method:
            case NmsKernel.HARD:
                return (overlap < self.iou_threshold).astype(overlap.dtype)
            case NmsKernel.LINEAR:
                return np.where(overlap < self.iou_threshold, 1, 1 - overlap)
            case NmsKernel.GAUSSIAN:
                return np.exp(-(overlap**2) / self.sigma)
