"""Region proposals of a feature pyramid: collection from levels, distribution to levels."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import Arrays, In, Op, Out, uint32
from dovetail_opset._boxes import need_box_rows
from dovetail_opset._indices import INDEX_TYPES
from dovetail_opset._package import PACKAGE
from dovetail_opset._rows import filled
from dovetail_opset._shapes import computed, need_numbers, need_shape
from dovetail_opset._suppression import falling

_MOST_LEVELS = 5


def _need_levels(low: int, high: int, allowed: int) -> int:
    """Return the number of levels.

    Raises:
        OpError: It is 0, or larger than the op has tensors for.
    """
    if not 0 <= high - low < allowed:
        raise OpError(f"levels {low} to {high} must be 1 to {allowed} levels")
    return high - low + 1


@PACKAGE.op("CollectRpnProposals")
class CollectRpnProposals(Op):
    """The best of the regions of all levels.

    rois of each level rpn_min_level to rpn_max_level, from in[0] on: (r, 5), rows image, x1, y1,
    x2, y2; their scores, from in[5] on: (r,). Inputs of further levels are omitted. Returns the
    post_nms_top best, all if there are fewer, by falling score; of equal ones the lower level, then
    the lower index comes first. NaN counts as the best score.
    """

    inputs = (
        In("in[0]"),
        *(In(f"in[{i}]", optional=True) for i in range(1, 5)),
        In("in[5]"),
        *(In(f"in[{i}]", optional=True) for i in range(6, 10)),
    )
    source = "spec/qnn_ops.md, CollectRpnProposals; Caffe2 CollectRpnProposals; Lin et al. 2017"

    rpn_min_level = uint32(2)
    rpn_max_level = uint32(6)
    post_nms_top = uint32(2000)

    def infer(self, ins: Sequence[Spec | None], outs: Sequence[Spec | None]) -> Spec:
        levels = _need_levels(self.rpn_min_level, self.rpn_max_level, _MOST_LEVELS)
        total = 0
        for level in range(_MOST_LEVELS):
            rois, scores = ins[level], ins[_MOST_LEVELS + level]
            if (rois is None) != (level >= levels) or (scores is None) != (level >= levels):
                raise OpError(
                    f"in[{level}] and in[{_MOST_LEVELS + level}] must be "
                    f"{'given' if level < levels else 'left out'}: levels "
                    f"{self.rpn_min_level} to {self.rpn_max_level} are {levels}"
                )
            if rois is not None and scores is not None:
                need_numbers(rois, scores)
                count = need_box_rows(rois, f"in[{level}]", 5)
                need_shape(scores, (count,), f"in[{_MOST_LEVELS + level}]")
                total += count
        first = ins[0]
        if first is None:
            raise OpError("in[0], the regions of the lowest level, is left out")
        return computed(first, (min(total, self.post_nms_top), 5), outs[0])

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> Array:
        rois = np.concatenate([x for x in ins[:_MOST_LEVELS] if x is not None])
        scores = np.concatenate([x for x in ins[_MOST_LEVELS:] if x is not None])
        best: Array = rois[falling(scores)[: outs[0].shape[0]]]
        return best


@PACKAGE.op("DistributeFpnProposals")
class DistributeFpnProposals(Op):
    """Regions sorted by the level of the feature pyramid that suits their size.

    rois: (r, 4), rows x1, y1, x2, y2, or (r, 5), with the image before them. The level is
    floor(roi_canonical_level + log2(sqrt(area) / roi_canonical_scale)), clipped to roi_min_level
    and roi_max_level; a region without area is at the lowest; one with NaN is at none. Returns for
    each level its regions in their order, (m, 4) or (m, 5), m as declared, else r; the rows after
    the last are 0, and more than m are an error. The first output, (r,), INT_32 or UINT_32, holds
    the index of each region in the outputs of all levels side by side, these rows included;
    gathering by it restores the order.
    """

    inputs = (In("in[0]"),)
    outputs = (
        Out("out[0]", INDEX_TYPES),
        Out("out[1]"),
        *(Out(f"out[{i}]", optional=True) for i in range(2, 5)),
    )
    source = "spec/qnn_ops.md, DistributeFpnProposals; Caffe2; Lin et al. 2017, eq. 1"

    roi_min_level = uint32(2)
    roi_max_level = uint32(5)
    roi_canonical_scale = uint32(224)
    roi_canonical_level = uint32(4)

    def infer(self, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> tuple[Spec, ...]:
        rois = ins[0]
        need_numbers(rois)
        count = need_box_rows(rois, "in[0]", 5 if rois.shape[1:] == (5,) else 4)
        levels = _need_levels(self.roi_min_level, self.roi_max_level, len(self.outputs) - 1)
        if any(s is not None for s in outs[1 + levels :]):
            raise OpError(
                f"levels {self.roi_min_level} to {self.roi_max_level} need {levels} outputs after "
                "out[0], but there are more"
            )
        if not self.roi_canonical_scale:
            raise OpError("roi_canonical_scale must not be 0: it divides the sizes")
        kind = DType.INT_32 if outs[0] is None else outs[0].dtype
        found = [Spec(kind, (count,))]
        for out in outs[1 : 1 + levels]:
            rows = count if out is None or not out.shape else out.shape[0]
            found.append(computed(rois, (rows, rois.shape[1]), out))
        return tuple(found)

    def reference(self, ins: Sequence[Array], outs: Sequence[Spec | None]) -> tuple[Array, ...]:
        rois = ins[0]
        size = np.maximum(rois[:, -2:] - rois[:, -4:-2], 0).astype(np.float64)
        side = np.sqrt(np.multiply(*size.T))
        level = np.floor(self.roi_canonical_level + np.log2(side / self.roi_canonical_scale))
        level = np.clip(level, self.roi_min_level, self.roi_max_level) - self.roi_min_level
        position = np.zeros(len(rois), np.int64)
        results, begin = [], 0
        for i in range(self.roi_max_level - self.roi_min_level + 1):
            which = np.flatnonzero(level == i)
            spec = outs[1 + i]
            rows = len(rois) if spec is None else spec.shape[0]
            results.append(filled(rois[which], rows, f"regions at level {i + self.roi_min_level}"))
            position[which] = begin + np.arange(len(which))
            begin += rows
        return (position, *results)
