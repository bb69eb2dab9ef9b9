"""Detection heads: decoding of boxes and selection of the best."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op, Out, bool8, choice, float32, int32, tensor, uint32
from dovetail_opset._boxes import Boxes, cornered, moved_boxes
from dovetail_opset._package import PACKAGE
from dovetail_opset._rows import declared_rows, stacked
from dovetail_opset._shapes import computed, need_float, need_rank, need_shape
from dovetail_opset._suppression import Indices, falling, keep_best

_UNLIMITED = -1


class NmsType(enum.IntEnum):
    """Unit of suppression: each box once, or each pair of box and class."""

    FAST = 0
    REGULAR = 1


@PACKAGE.op("DetectionOutput")
class DetectionOutput(Op):
    """The detections of an SSD head: the best of the boxes decoded from anchors.

    scores: (n, anchors, classes); deltas: (n, anchors, 4), or (n, anchors * classes, 4) without
    share_location, the classes of an anchor side by side; each dy, dx, dh, dw; anchors: (n *
    anchors, 4), rows center y, center x, height, width. The deltas are divided by
    delta_scaling_factors; dy and dx are fractions of the anchor's size, dh and dw natural
    logarithms of the stretch.

    REGULAR: within each class, boxes with scores above confidence_threshold are kept by falling
    score unless they overlap a kept one by iou_threshold or more; at most detection_limit per
    class. The threshold is multiplied by nms_eta after each kept box while it exceeds 0.5. FAST:
    each anchor takes part once, with its best score, and is returned with its detection_limit best
    classes, whatever their scores. A detection_limit of -1 means no limit. A NaN score exceeds no
    threshold.

    The background class takes part only with use_bg_in_nms. Without output_background its
    detections are omitted, and the labels of the classes after it are one less.

    Returns scores (n, m), boxes (n, m, 4), FLOAT_32, rows y1, x1, y2, x2, labels (n, m) and the
    number of valid ones (n,). m must be declared: the best m are returned, by falling score, then
    class; with FAST the anchors by falling score, each with its classes. After the valid ones all
    is 0.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]"))
    outputs = (
        Out("out[0]"),
        Out("out[1]", (DType.FLOAT_32,)),
        Out("out[2]", (DType.INT_32,)),
        Out("out[3]", (DType.UINT_32,)),
    )
    source = "spec/qnn_ops.md, DetectionOutput; NNAPI DETECTION_POSTPROCESSING; Liu et al. 2016"

    delta_scaling_factors = tensor((4,), dtype=DType.FLOAT_32)
    confidence_threshold = float32()
    iou_threshold = float32()
    nms_type = choice(NmsType, NmsType.FAST)
    background_class_idx = uint32(0)
    use_bg_in_nms = bool8(False)
    output_background = bool8(True)
    share_location = bool8(True)
    nms_eta = float32(1.0)
    detection_limit = int32(_UNLIMITED)

    def infer(
        self,
        scores: Spec,
        deltas: Spec,
        anchors: Spec,
        out: Spec | None,
        boxes: Spec | None,
        labels: Spec | None,
        count: Spec | None,
    ) -> tuple[Spec, Spec, Spec, Spec]:
        for i, spec in enumerate((scores, deltas, anchors)):
            need_float(spec, f"in[{i}]")
        need_rank(scores, 3, "in[0]")
        n, each, classes = scores.shape
        need_shape(deltas, (n, each if self.share_location else each * classes, 4), "in[1]")
        need_shape(anchors, (n * each, 4), "in[2]")
        self._need_params()
        most = declared_rows((out, boxes, labels), "detections", axis=1)
        return (
            computed(scores, (n, most), out),
            Spec(DType.FLOAT_32, (n, most, 4)),
            Spec(DType.INT_32, (n, most)),
            Spec(DType.UINT_32, (n,)),
        )

    def reference(
        self,
        scores: Array,
        deltas: Array,
        anchors: Array,
        out: Spec,
        boxes: Spec,
        labels: Spec,
        count: Spec,
    ) -> tuple[Array, ...]:
        n, each = scores.shape[:2]
        priors = anchors.reshape(n, each, 1, 4)
        scaled = deltas.reshape(n, each, deltas.shape[1] // each if each else 1, 4)
        scaled = scaled / self.delta_scaling_factors
        corners = cornered(*moved_boxes(priors[..., :2], priors[..., 2:], scaled))
        choose = self._fast if self.nms_type is NmsType.FAST else self._regular
        images = []
        for values, decoded in zip(scores, corners, strict=True):
            positions, found = choose(values, decoded, out.shape[1])
            position = found if decoded.shape[1] > 1 else 0
            images.append(
                (values[positions, found], decoded[positions, position], self._renamed(found))
            )
        counts = np.array([len(image[0]) for image in images], np.int64)
        return (*stacked(images, (out, boxes, labels)), counts)

    def _regular(self, scores: Array, corners: Array, most: int) -> tuple[Indices, Indices]:
        """Return indices and classes of the best detections of one image."""
        limit = None if self.detection_limit == _UNLIMITED else self.detection_limit
        positions, labels = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for c in self._classes(scores.shape[1]):
            order = falling(scores[:, c])
            kept = keep_best(
                Boxes.of(corners[:, c if corners.shape[1] > 1 else 0]),
                order[scores[order, c] > self.confidence_threshold],
                threshold=self.iou_threshold,
                touching=True,
                limit=limit,
                eta=self.nms_eta,
            )
            positions.append(kept)
            labels.append(np.full(len(kept), c))
        position, label = np.concatenate(positions), np.concatenate(labels)
        if not self.output_background:
            shown = label != self.background_class_idx
            position, label = position[shown], label[shown]
        order = falling(scores[position, label])[:most]
        return position[order], label[order]

    def _fast(self, scores: Array, corners: Array, most: int) -> tuple[Indices, Indices]:
        """Return indices of the best anchors of one image, with some classes for each."""
        classes = np.array(self._classes(scores.shape[1]), np.int64)
        each = len(classes)
        if self.detection_limit != _UNLIMITED:
            each = min(each, self.detection_limit)
        if not each:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        best = scores[:, classes].max(axis=1)
        order = falling(best)
        kept = keep_best(
            Boxes.of(corners[:, 0]),
            order[best[order] > self.confidence_threshold],
            threshold=self.iou_threshold,
            touching=True,
            limit=-(-most // each) if self.output_background else None,
        )
        ranks = np.argsort(-scores[kept][:, classes], axis=1, kind="stable")[:, :each]
        positions, labels = np.repeat(kept, each), classes[ranks].reshape(-1)
        if not self.output_background:
            shown = labels != self.background_class_idx
            positions, labels = positions[shown], labels[shown]
        return positions[:most], labels[:most]

    def _classes(self, count: int) -> list[int]:
        return [c for c in range(count) if self.use_bg_in_nms or c != self.background_class_idx]

    def _renamed(self, labels: Array) -> Array:
        if self.output_background:
            return labels
        return labels - (labels > self.background_class_idx)

    def _need_params(self) -> None:
        if not np.all(self.delta_scaling_factors):
            factors = self.delta_scaling_factors.tolist()
            raise OpError(f"delta_scaling_factors {factors} divide the deltas, so none may be 0")
        if self.detection_limit < _UNLIMITED:
            raise OpError(
                f"detection_limit is {self.detection_limit}; it must be -1 (no limit) or more"
            )
        if self.nms_type is NmsType.FAST and not self.share_location:
            raise OpError(
                "nms_type FAST takes each anchor once, but without share_location an anchor has "
                "a box for each class",
                hint="set nms_type to REGULAR",
            )
