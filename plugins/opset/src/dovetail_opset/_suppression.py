"""Non-maximum suppression: the best boxes are kept, overlapping ones dropped or scored lower.

Boxes are taken by falling score; of equal scores the lower index comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail_opset._boxes import Boxes, as_float

Indices = NDArray[np.int64]
# Candidates among which all overlaps are computed together: a bit each of a number. With half or
# twice as many, the best 300 of 6,700 boxes took 1.2 times as long.
_BLOCK = 64
_MOST = 1024  # candidates that are compared with kept boxes together
# Of candidates whose overlaps are computed together. For more, the arrays are so large that the
# allocator may get each from the system: 80 classes of 64 took 2.4 ms, with four times as many 4.9.
_MOST_PAIRS = 1 << 13


def falling(scores: Array) -> Indices:
    """Return indices of (n,) by falling score, NaN first; of equal ones the lower index first."""
    order = np.argsort(scores)  # a stable sort takes five times as long
    rising = scores[order]
    if (rising[1:] == rising[:-1]).any() or np.isnan(rising[-1:]).any():
        # the last of the reversed ones is the first of the equal ones
        order = len(scores) - 1 - np.argsort(scores[::-1], kind="stable")
    return np.asarray(order[::-1], np.int64)


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
    drops = np.greater_equal if touching else np.greater
    kept: list[int] = []
    start, count = 0, _BLOCK
    while start < len(order):
        left = order[start : start + count]
        start, count = start + count, min(2 * count, _MOST)
        worst, compared = np.zeros(len(left), boxes.area.dtype), 0
        while len(left):
            if len(kept) > compared:
                np.maximum(worst, _most_overlap(boxes, left, kept[compared:]), out=worst)
                compared = len(kept)
                which = ~drops(worst, threshold)
                left, worst = left[which], worst[which]
            block = _Block(boxes, left[:_BLOCK], worst[:_BLOCK])
            too_near, masks = block.dropped(drops, threshold)
            own = 0  # bit i is set if candidate i of the block is kept
            for i, candidate in enumerate(block.candidates):
                if limit is not None and len(kept) >= limit:
                    return np.array(kept, np.int64)
                if kept and (too_near[i] or masks[i] & own):
                    continue
                kept.append(candidate)
                own |= 1 << i
                if eta < 1 and threshold > 0.5:
                    threshold *= eta
                    too_near, masks = block.dropped(drops, threshold)
            left, worst = left[_BLOCK:], worst[_BLOCK:]
    return np.array(kept, np.int64)


class _Block:
    """Candidates whose overlaps are computed together, `_BLOCK` at most.

    Args:
        boxes: All boxes.
        candidates: Indices of the candidates.
        worst: Their maximum overlaps with boxes that were kept before.
    """

    def __init__(self, boxes: Boxes, candidates: Indices, worst: Array) -> None:
        among = boxes.take(candidates)
        self._overlaps, self._worst = among.overlaps(among), worst
        self.candidates: list[int] = candidates.tolist()

    def dropped(self, drops: np.ufunc, threshold: float) -> tuple[list[bool], list[int]]:
        """Return for each candidate whether it is dropped, and by which others of the block.

        Args:
            drops: Whether an overlap exceeds the threshold.
            threshold: The threshold.

        Returns:
            Whether boxes that were kept before drop it, and a number whose bit i is set if
            candidate i would.
        """
        return drops(self._worst, threshold).tolist(), _masks(drops(self._overlaps, threshold))


def _most_overlap(boxes: Boxes, candidates: Indices, kept: list[int]) -> Array:
    """Return the maximum overlap of each candidate with kept boxes."""
    found = np.zeros(len(candidates), boxes.area.dtype)
    left = boxes.take(candidates)
    for start in range(0, len(kept), _BLOCK):
        others = boxes.take(np.array(kept[start : start + _BLOCK]))
        np.maximum(found, left.overlaps(others).max(axis=0), out=found)
    return found


def best_of_classes(
    boxes: Boxes, scores: Array, minimum: float, threshold: float, limit: int | None = None
) -> list[Indices]:
    """Keep the best boxes of each class with scores above a threshold, as ONNX and TensorFlow do.

    Overlaps of all classes with few candidates are computed together: NumPy's calls take most of
    the time of one class.

    Args:
        boxes: All boxes.
        scores: (classes, n).
        minimum: Threshold that a score must exceed.
        threshold: Maximum overlap with a kept box of the class.
        limit: Maximum number to keep of each class.

    Returns:
        Indices of the kept boxes of each class, best first.
    """
    above = np.flatnonzero(scores > minimum)
    values = as_float(scores.reshape(-1)[above])
    if len(scores) == 1:
        order = above[falling(values)]
        return [keep_best(boxes, order, threshold=threshold, touching=False, limit=limit)]
    labels, candidates = np.divmod(above, scores.shape[1])
    counts = np.bincount(labels, minlength=len(scores))
    starts = np.cumsum(counts) - counts
    found = [candidates[:0]] * len(scores)
    for label in np.flatnonzero(counts > _BLOCK).tolist():
        own = slice(starts[label], starts[label] + counts[label])
        order = candidates[own][falling(values[own])]
        found[label] = keep_best(boxes, order, threshold=threshold, touching=False, limit=limit)
    few = np.flatnonzero((counts > 0) & (counts <= _BLOCK))
    if not few.size:
        return found
    most = int(counts[few].max())
    for part in np.split(few, range(0, len(few), _MOST_PAIRS // most**2)[1:]):
        at = starts[part, None] + np.arange(most)
        is_own = np.arange(most) < counts[part, None]
        falling_values = np.where(is_own, -values.take(at, mode="clip"), np.inf)
        order = np.argsort(falling_values, axis=1, kind="stable")
        grouped = candidates.take(starts[part, None] + order, mode="clip")
        among = boxes.take(grouped)
        masks = _masks(among.overlaps(among) > threshold)
        rows = zip(part.tolist(), counts[part].tolist(), grouped, masks, strict=True)
        for label, count, indices, overlapping in rows:
            found[label] = indices[_kept(overlapping[:count], limit)]
    return found


def _kept(masks: list[int], limit: int | None) -> list[int]:
    """Return the positions of the candidates that are kept, by the masks of those they overlap."""
    kept: list[int] = []
    own = 0
    for i, mask in enumerate(masks):
        if limit is not None and len(kept) >= limit:
            break
        if not mask & own:
            kept.append(i)
            own |= 1 << i
    return kept


def _masks(drops: Array) -> Any:
    """Return rows of truths, `_BLOCK` at most, as numbers with bit i for column i, in lists."""
    found = np.zeros((*drops.shape[:-1], _BLOCK), np.bool_)
    found[..., : drops.shape[-1]] = drops
    return np.packbits(found, -1, "little").view("<u8")[..., 0].tolist()


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
        order, scores, boxes = order[left], scores[left], boxes.take(np.flatnonzero(left))
    return np.array(kept, np.int64), np.array(values, scores.dtype)
