"""Non-maximum suppression: the best boxes are kept, overlapping ones dropped or scored lower.

Boxes are taken by falling score; of equal scores the lower index comes first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail_opset._boxes import Boxes

Indices = NDArray[np.int64]
# Candidates among which all overlaps are computed together. With half or twice as many, the best
# 300 of 6,700 boxes took 1.2 times as long.
_BLOCK = 64
_MOST = 1024  # candidates that are compared with kept boxes together


def falling(scores: Array) -> Indices:
    """Return indices of (n,) by falling score, NaN first; of equal ones the lower index first."""
    # the last of the reversed ones is the first of the equal ones
    return np.asarray(len(scores) - 1 - np.argsort(scores[::-1], kind="stable")[::-1], np.int64)


def keep_best(
    boxes: Boxes,
    order: Indices,
    *,
    threshold: float,
    touching: bool,
    limit: int | None = None,
    eta: float = 1.0,
) -> Indices:
    """Keep the first box, drop those that overlap it too much, and repeat.

    Args:
        boxes: All boxes.
        order: Indices of the candidates, best first.
        threshold: Overlap that drops a box.
        touching: Whether an overlap equal to the threshold drops it too.
        limit: Maximum number to keep.
        eta: Factor on the threshold after each kept box while the threshold exceeds 0.5.

    Returns:
        Indices of the kept boxes, best first.
    """
    stays = operator.lt if touching else operator.le
    kept: list[int] = []
    start, count = 0, _BLOCK
    while start < len(order):
        left = order[start : start + count]
        worst, compared = np.zeros(len(left), boxes.area.dtype), 0
        start, count = start + count, min(2 * count, _MOST)
        while len(left):
            if len(kept) > compared:
                np.maximum(worst, _most_overlap(boxes, left, kept[compared:]), out=worst)
                compared = len(kept)
                which = stays(worst, threshold)
                left, worst = left[which], worst[which]
            among = boxes.take(left[:_BLOCK])
            overlaps = among.overlaps(among)
            for i, candidate in enumerate(left[:_BLOCK].tolist()):
                if limit is not None and len(kept) >= limit:
                    return np.array(kept, np.int64)
                if kept and not stays(worst[i], threshold):
                    continue
                kept.append(candidate)
                np.maximum(worst[:_BLOCK], overlaps[i], out=worst[:_BLOCK])
                if eta < 1 and threshold > 0.5:
                    threshold *= eta
            left, worst = left[_BLOCK:], worst[_BLOCK:]
    return np.array(kept, np.int64)


def _most_overlap(boxes: Boxes, candidates: Indices, kept: list[int]) -> Array:
    """Return the maximum overlap of each candidate with kept boxes."""
    found = np.zeros(len(candidates), boxes.area.dtype)
    left = boxes.take(candidates)
    for start in range(0, len(kept), _BLOCK):
        others = boxes.take(np.array(kept[start : start + _BLOCK]))
        np.maximum(found, left.overlaps(others).max(axis=0), out=found)
    return found


def best_above(
    boxes: Boxes, scores: Array, minimum: float, threshold: float, limit: int | None = None
) -> Indices:
    """Keep the best of the boxes with scores above a threshold, as ONNX and TensorFlow do.

    Args:
        boxes: All boxes.
        scores: (n,).
        minimum: Threshold that a score must exceed.
        threshold: Maximum overlap with a kept box.
        limit: Maximum number to keep.
    """
    candidates = np.flatnonzero(scores > minimum)
    order = candidates[falling(scores[candidates])]
    return keep_best(boxes, order, threshold=threshold, touching=False, limit=limit)


def soften(
    boxes: Boxes,
    scores: Array,
    *,
    weigh: Callable[[Array], Array],
    stays: Callable[[Array], Array],
    limit: int | None = None,
) -> tuple[Indices, Array]:
    """Keep the best box, lower the scores of those that overlap it, and repeat (soft-NMS).

    Args:
        boxes: All are candidates.
        scores: (n,).
        weigh: Returns factors on scores for overlaps; a factor of 0 drops a box.
        stays: Returns which lowered scores remain candidates.
        limit: Maximum number to keep.

    Returns:
        Indices of the kept boxes in the order of keeping, and the scores with which they were kept.
    """
    order = np.arange(len(scores))
    kept: list[int] = []
    values: list[float] = []
    while order.size and (limit is None or len(kept) < limit):
        best = int(np.argmax(scores))
        kept.append(int(order[best]))
        values.append(scores[best])
        weights = weigh(boxes.overlap(best))
        scores = scores * weights
        left = (weights > 0) & stays(scores)
        left[best] = False
        order, scores, boxes = order[left], scores[left], boxes.take(left)
    return np.array(kept, np.int64), np.array(values, scores.dtype)
