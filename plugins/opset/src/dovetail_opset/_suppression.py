"""Non-maximum suppression: the best boxes are kept, overlapping ones dropped or scored lower.

Boxes are taken by falling score; of equal scores the lower index comes first. One row of overlaps
is computed for each kept box; there is no other loop over boxes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail_opset._boxes import Boxes

Indices = NDArray[np.int64]


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
    left = boxes.take(order)
    worst = np.zeros_like(left.area)  # maximum overlap of each remaining box with the kept ones
    kept: list[int] = []
    while order.size and (limit is None or len(kept) < limit):
        kept.append(int(order[0]))
        worst = np.maximum(worst, left.overlap(0))
        if eta < 1 and threshold > 0.5:
            threshold *= eta
        stays = worst < threshold if touching else worst <= threshold
        stays[0] = False
        order, left, worst = order[stays], left.take(stays), worst[stays]
    return np.array(kept, np.int64)


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
    order = falling(scores)
    order = order[scores[order] > minimum]
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
