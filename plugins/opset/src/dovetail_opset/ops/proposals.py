"""Region proposals from anchors."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op, Out, bool8, float32, scalar, tensor
from dovetail_opset._boxes import (
    STRETCH_LIMIT,
    Boxes,
    centered,
    clipped,
    cornered,
    moved_boxes,
)
from dovetail_opset._package import PACKAGE
from dovetail_opset._rows import declared_rows, filled
from dovetail_opset._shapes import computed, need_float, need_rank, need_shape
from dovetail_opset._suppression import Indices, falling, keep_best


@PACKAGE.op("GenerateProposals")
class GenerateProposals(Op):
    """The best regions of each image: anchors at every position, moved and stretched.

    scores: (n, h, w, anchors); deltas: (n, h, w, anchors * 4), each dx, dy, dw, dh; anchors:
    (anchors, 4), rows x1, y1, x2, y2 at position (0, 0); image size: (n, 2), rows height, width.
    Positions are img_size_ratio (vertical, horizontal) apart. dx and dy are fractions of the
    anchor's size, dw and dh natural logarithms of the stretch; with bbox_xform_clip at most
    log(1000 / 16). Regions are clipped to their image.

    The pre_nms_limit best of each image take part; of those, the ones wider and higher than
    min_size with their center in the image. A region is dropped if a better one overlaps it by
    iou_threshold or more; post_nms_limit are kept. A limit that is omitted, or 0, is no limit. Of
    equal scores the lower index comes first; NaN counts as the best score. Returns scores (m,),
    boxes (m, 4) and images (m,), by image, then falling score; the rows after the last are 0, and
    more than m are an error. m is as declared, else n times the smaller limit.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]"), In("in[3]"))
    outputs = (Out("out[0]"), Out("out[1]"), Out("out[2]", (DType.INT_32,)))
    source = "spec/qnn_ops.md, GenerateProposals; NNAPI GENERATE_PROPOSALS; Ren et al. 2015"

    img_size_ratio = tensor((2,), dtype=DType.FLOAT_32)
    min_size = float32(0.0)
    pre_nms_limit = scalar(None, dtypes=(DType.UINT_32,))
    post_nms_limit = scalar(None, dtypes=(DType.UINT_32,))
    iou_threshold = float32()
    bbox_xform_clip = bool8(False)

    def infer(
        self,
        scores: Spec,
        deltas: Spec,
        anchors: Spec,
        image: Spec,
        out: Spec | None,
        boxes: Spec | None,
        images: Spec | None,
    ) -> tuple[Spec, Spec, Spec]:
        for i, spec in enumerate((scores, deltas, anchors, image)):
            need_float(spec, f"in[{i}]")
        need_rank(scores, 4, "in[0]")
        n, height, width, each = scores.shape
        need_shape(deltas, (n, height, width, each * 4), "in[1]")
        need_shape(anchors, (each, 4), "in[2]")
        need_shape(image, (n, 2), "in[3]")
        outs = (out, boxes, images)
        limits = [k for k in self._limits() if k is not None]
        if limits and all(s is None for s in outs):
            rows = n * min(*limits, height * width * each)
        else:
            rows = declared_rows(outs, "proposals")
        return (
            computed(scores, (rows,), out),
            computed(deltas, (rows, 4), boxes),
            Spec(DType.INT_32, (rows,)),
        )

    def reference(
        self,
        scores: Array,
        deltas: Array,
        anchors: Array,
        image: Array,
        out: Spec,
        boxes: Spec,
        images: Spec,
    ) -> tuple[Array, Array, Array]:
        flat = scores.reshape(len(scores), int(np.prod(scores.shape[1:])))
        center, size = centered(self._placed(anchors, scores.shape[1:3]))
        moves = deltas.reshape(*flat.shape, 4)
        found = [(flat.reshape(-1)[:0], moves.reshape(-1, 4)[:0], np.zeros(0, np.int64))]
        for i, values in enumerate(flat):
            order = falling(values)[: self._limits()[0]]
            regions = clipped(
                self._moved(center[order], size[order], moves[i, order]), image[i : i + 1]
            )
            kept = self._kept(regions, image[i])
            found.append((values[order[kept]], regions[kept], np.full(len(kept), i)))
        joined = (np.concatenate(parts) for parts in zip(*found, strict=True))
        best, corners, index = (filled(x, out.shape[0], "proposals") for x in joined)
        return best, corners, index

    def _placed(self, anchors: Array, positions: Sequence[int]) -> Array:
        """Return the anchors at all positions, (h * w * anchors, 4)."""
        vertical, horizontal = self.img_size_ratio.astype(anchors.dtype)
        down, across = np.meshgrid(
            np.arange(positions[0]) * vertical, np.arange(positions[1]) * horizontal, indexing="ij"
        )
        shifts = np.stack([across, down, across, down], axis=-1).astype(anchors.dtype)
        placed: Array = shifts[:, :, None] + anchors
        return placed.reshape(-1, 4)

    def _moved(self, center: Array, size: Array, deltas: Array) -> Array:
        if self.bbox_xform_clip:
            stretch = np.minimum(deltas[:, 2:], STRETCH_LIMIT)
            deltas = np.concatenate([deltas[:, :2], stretch], axis=1)
        return cornered(*moved_boxes(center, size, deltas))

    def _kept(self, regions: Array, size: Array) -> Indices:
        """Return indices of the kept regions of one image, best first."""
        center, length = centered(regions)
        fits = (length > self.min_size) & (center < size[::-1])
        return keep_best(
            Boxes.of(regions),
            np.flatnonzero(fits.all(axis=1)),
            threshold=self.iou_threshold,
            touching=True,
            limit=self._limits()[1],
        )

    def _limits(self) -> tuple[int | None, int | None]:
        return self.pre_nms_limit or None, self.post_nms_limit or None
