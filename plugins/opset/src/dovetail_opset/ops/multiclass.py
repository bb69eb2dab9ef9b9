"""Suppression within each class, best of all classes: boxes y1, x1, y2, x2, as in TensorFlow.

An overlap is the intersection of two boxes over their union; a box is dropped if its overlap with a
better one of its class exceeds iou_threshold. Of equal scores the lower class, then the lower index
comes first. The two corners of a box may be any opposite ones. A NaN score exceeds no threshold.
"""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Shape, Spec
from dovetail.ops import Arrays, In, Op, Out, bool8, float32, uint32
from dovetail_opset._boxes import Boxes, need_boxes_of
from dovetail_opset._package import PACKAGE
from dovetail_opset._rows import declared_rows, stacked
from dovetail_opset._shapes import computed, need_numbers, need_rank
from dovetail_opset._suppression import Indices, best_of_classes, falling, soften


def _joined(kept: Sequence[Indices]) -> tuple[Indices, Indices]:
    """Return the indices of the kept boxes of all classes, and their classes."""
    labels = np.repeat(np.arange(len(kept)), [len(k) for k in kept])
    return np.concatenate([np.zeros(0, np.int64), *kept]), labels


def _counts(images: Sequence[tuple[Array, ...]]) -> Array:
    return np.array([len(found[0]) for found in images], np.int64)


@PACKAGE.op("CombinedNms")
class CombinedNms(Op):
    """The best boxes of all classes of each image, after suppression within each class.

    boxes: (n, boxes, q, 4), rows y1, x1, y2, x2, q either 1 or the number of classes; scores: (n,
    boxes, classes). Only scores above score_threshold take part; at most max_boxes_per_class are
    kept per class and max_total_boxes per image. Returns boxes (n, m, 4), scores (n, m), classes
    (n, m), by default UINT_32, by falling score, then class; after the valid ones they are 0. The
    number of valid ones is (n,). m is max_total_boxes; with pad_per_class at most
    max_boxes_per_class * classes. clip_boxes clips the coordinates of the results to [0, 1].
    """

    inputs = (In("in[0]"), In("in[1]"))
    outputs = (Out("out[0]"), Out("out[1]"), Out("out[2]"), Out("out[3]", (DType.UINT_32,)))
    source = "spec/qnn_ops.md, CombinedNms; tf.image.combined_non_max_suppression"

    max_boxes_per_class = uint32()
    max_total_boxes = uint32()
    iou_threshold = float32()
    score_threshold = float32(0.0)
    pad_per_class = bool8(False)
    clip_boxes = bool8(False)

    def infer(
        self,
        boxes: Spec,
        scores: Spec,
        out: Spec | None,
        best: Spec | None,
        labels: Spec | None,
        count: Spec | None,
    ) -> tuple[Spec, Spec, Spec, Spec]:
        need_numbers(boxes, scores)
        need_rank(scores, 3, "in[1]")
        n, each, classes = scores.shape
        need_boxes_of(boxes, scores, *{(n, each, q, 4) for q in (1, classes)})
        most = self.max_total_boxes
        if self.pad_per_class:
            most = min(most, self.max_boxes_per_class * classes)
        kind = Spec(DType.UINT_32, (n, most)) if labels is None else labels
        return (
            computed(boxes, (n, most, 4), out),
            computed(scores, (n, most), best),
            Spec(kind.dtype, (n, most), kind.encoding),
            Spec(DType.UINT_32, (n,)),
        )

    def reference(
        self, boxes: Array, scores: Array, out: Spec, best: Spec, labels: Spec, count: Spec
    ) -> tuple[Array, ...]:
        images = [self._image(*pair, out.shape[1]) for pair in zip(boxes, scores, strict=True)]
        return (*stacked(images, (out, best, labels)), _counts(images))

    def _image(self, boxes: Array, scores: Array, most: int) -> tuple[Array, ...]:
        """Return boxes, scores and labels of the kept boxes of one image."""
        count = boxes.shape[1]  # 1 where all classes share the boxes
        limits = self.score_threshold, self.iou_threshold, self.max_boxes_per_class
        groups = zip(boxes.swapaxes(0, 1), np.split(scores.T, max(count, 1)), strict=False)
        found = [
            kept
            for corners, rows in groups
            for kept in best_of_classes(Boxes.of(corners), rows, *limits)
        ]
        positions, labels = _joined(found)
        order = falling(scores[positions, labels])[:most]
        positions, labels = positions[order], labels[order]
        chosen = boxes[positions, 0 if count == 1 else labels]
        if self.clip_boxes:
            chosen = np.clip(chosen, 0, 1)
        return chosen, scores[positions, labels], labels


@PACKAGE.op("MultiClassNms")
class MultiClassNms(Op):
    """The best boxes of all classes of each image, with further features of these boxes.

    boxes: (n, boxes, 4), rows y1, x1, y2, x2; scores: (n, boxes, classes); any number of features
    (n, boxes, ...). Only scores above score_threshold take part. Returns boxes (n, m, 4), scores
    (n, m), classes (n, m), the number of valid ones (n,), and the features of the boxes (n, m,
    ...). m must be declared; the best m are returned, by falling score, then class; after the valid
    ones all is 0.

    With soft_nms_sigma above 0 an overlap drops no box, but multiplies its score by exp(-overlap^2
    / (2 * soft_nms_sigma)), and iou_threshold is ignored.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2..m]", optional=True, variadic=True))
    outputs = (
        Out("out[0]"),
        Out("out[1]"),
        Out("out[2]", (DType.INT_32,)),
        Out("out[3]", (DType.UINT_32,)),
        Out("out[4..M]", optional=True, variadic=True),
    )
    source = "spec/qnn_ops.md, MultiClassNms; TensorFlow NonMaxSuppressionV5"

    iou_threshold = float32()
    score_threshold = float32(0.0)
    soft_nms_sigma = float32(0.0)

    def infer(self, ins: Sequence[Spec | None], outs: Sequence[Spec | None]) -> tuple[Spec, ...]:
        boxes, scores, *features = _all_given(ins)
        need_numbers(boxes, scores)
        need_rank(scores, 3, "in[1]")
        n, each = scores.shape[:2]
        need_boxes_of(boxes, scores, (n, each, 4))
        for i, spec in enumerate(features, 2):
            if spec.shape[:2] != (n, each):
                raise OpError(
                    f"in[{i}] must begin with {(n, each)}, one feature per box, but its shape "
                    f"is {spec.shape}"
                )
        if self.soft_nms_sigma < 0:
            raise OpError(f"soft_nms_sigma must not be negative, got {self.soft_nms_sigma}")
        most = declared_rows(outs, "boxes", axis=1)
        declared = [*outs, *[None] * (4 + len(features) - len(outs))]
        return (
            _valued(boxes, (n, most, 4), declared[0]),
            _valued(scores, (n, most), declared[1]),
            Spec(DType.INT_32, (n, most)),
            Spec(DType.UINT_32, (n,)),
            *(
                computed(spec, (n, most, *spec.shape[2:]), out)
                for spec, out in zip(features, declared[4:], strict=True)
            ),
        )

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> tuple[Array, ...]:
        boxes, scores, *features = (x for x in ins[: len(outs) - 2] if x is not None)
        images = []
        for i in range(len(boxes)):
            positions, labels, best = self._image(boxes[i], scores[i], outs[0].shape[1])
            images.append((boxes[i, positions], best, labels, *(f[i, positions] for f in features)))
        found = stacked(images, (*outs[:3], *outs[4:]))
        return (*found[:3], _counts(images), *found[3:])

    def _image(self, corners: Array, scores: Array, most: int) -> tuple[Indices, Indices, Array]:
        """Return indices, labels and scores of the kept boxes of one image."""
        laid_out = Boxes.of(corners)
        if self.soft_nms_sigma:
            softened = [self._softened(laid_out, row, most) for row in scores.T]
            found, values = [kept for kept, _ in softened], [best for _, best in softened]
        else:
            limits = self.score_threshold, self.iou_threshold, most
            found = best_of_classes(laid_out, scores.T, *limits)
            values = [row[kept] for row, kept in zip(scores.T, found, strict=True)]
        positions, labels = _joined(found)
        best = np.concatenate([scores.reshape(-1)[:0], *values])
        order = falling(best)[:most]
        return positions[order], labels[order], best[order]

    def _softened(self, boxes: Boxes, scores: Array, most: int) -> tuple[Indices, Array]:
        candidates = np.flatnonzero(scores > self.score_threshold)
        kept, best = soften(
            boxes.take(candidates),
            scores[candidates],
            weigh=lambda overlap: np.exp(-(overlap**2) / (2 * self.soft_nms_sigma)),
            stays=lambda lowered: lowered > self.score_threshold,
            limit=most,
        )
        return candidates[kept], best


def _all_given(ins: Sequence[Spec | None]) -> list[Spec]:
    given = [s for s in ins if s is not None]
    if len(given) < max(len(ins), 2):
        raise OpError("MultiClassNms needs boxes, scores and features; none may be left out")
    return given


def _valued(x: Spec, shape: Shape, out: Spec | None) -> Spec:
    """Return the spec of values of `x`, which the graph may declare as float or fixed-point."""
    if out is not None and (out.dtype.is_float or out.dtype.is_fixed_point):
        return Spec(out.dtype, shape, out.encoding)
    return computed(x, shape, out)
