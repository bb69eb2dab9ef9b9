"""The verifier of detections: MeanIOU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.verification import Comparison, VerificationError

Boxes = NDArray[np.float64]

_CORNERS = 4
# The overlaps of all pairs of two sets of this size take 32 MB.
_MAXIMUM = 2048


class MeanIOU:
    """The mean intersection over union of golden boxes and target boxes.

    In each image, boxes of the same class are paired, those with the largest overlap first. A box
    without a partner counts with 0.

    Args:
        background_classification: Class whose boxes are left out.
        threshold: Minimum value that passes.
    """

    def __init__(self, *, background_classification: float = 1.0, threshold: float = 0.9) -> None:
        self._background, self._threshold = background_classification, threshold
        self._sum = 0.0
        self._blocks = self._pairs = self._golden_only = self._target_only = 0
        self._golden_odd = self._target_odd = 0

    def update(
        self, golden_boxes: Array, target_boxes: Array, golden_classes: Array, target_classes: Array
    ) -> None:
        """Compare the boxes of images.

        Args:
            golden_boxes: Two opposite corners of each expected box, shape (..., n, 4): y, x, y, x
                or x, y, x, y.
            target_boxes: Boxes to check, of the same shape.
            golden_classes: The class of each box, shape (..., n) or (..., n, 1).
            target_classes: Likewise.
        """
        boxes, classes = golden_boxes.shape, golden_classes.shape
        if boxes[-1:] != (_CORNERS,) or classes not in (boxes[:-1], (*boxes[:-1], 1)):
            raise VerificationError(
                f"expected boxes of shape (..., n, 4) and classes of shape (..., n), got {boxes} "
                f"and {classes}",
                where="verifier 'MeanIOU'",
                hint="name the tensor of the boxes first, then that of the classes",
            )
        count = boxes[-2] if len(boxes) > 1 else 1
        if golden_boxes.size:
            g, t = (a.reshape(-1, count, _CORNERS) for a in (golden_boxes, target_boxes))
            g_class, t_class = (a.reshape(-1, count) for a in (golden_classes, target_classes))
            for image in zip(g, t, g_class, t_class, strict=True):
                self._add_image(*image)
        self._blocks += 1

    def finish(self) -> Comparison:
        """Return the comparison."""
        boxes = self._pairs + self._golden_only + self._target_only
        value = self._sum / boxes if boxes else 1.0
        return Comparison(
            passed=value >= self._threshold,
            value=value,
            threshold=self._threshold,
            details={
                "pairs": self._pairs,
                "golden_without_partner": self._golden_only,
                "target_without_partner": self._target_only,
                "golden_not_finite": self._golden_odd,
                "target_not_finite": self._target_odd,
            },
        )

    def _add_image(self, g: Array, t: Array, g_class: Array, t_class: Array) -> None:
        g_of, g_odd = self._by_class(g, g_class)
        t_of, t_odd = self._by_class(t, t_class)
        self._golden_odd += g_odd
        self._target_odd += t_odd
        self._golden_only += g_odd
        self._target_only += t_odd
        nothing = np.empty((0, _CORNERS))
        for each in g_of.keys() | t_of.keys():
            golden, target = g_of.get(each, nothing), t_of.get(each, nothing)
            if max(len(golden), len(target)) > _MAXIMUM:
                raise VerificationError(
                    f"an image has more than {_MAXIMUM} boxes of class {each:g}",
                    where="verifier 'MeanIOU'",
                    hint="compare boxes after non-maximum suppression",
                )
            overlaps = _paired(_overlaps(golden, target))
            self._sum += float(sum(overlaps))
            self._pairs += len(overlaps)
            self._golden_only += len(golden) - len(overlaps)
            self._target_only += len(target) - len(overlaps)

    def _by_class(self, boxes: Array, classes: Array) -> tuple[dict[float, Boxes], int]:
        """Return the boxes of each class with ordered corners, and how many are not finite."""
        corners, labels = boxes.astype(np.float64), classes.astype(np.float64)
        wanted = labels != self._background
        finite = np.isfinite(corners).all(axis=1) & np.isfinite(labels)
        corners, labels = corners[wanted & finite], labels[wanted & finite]
        low = np.minimum(corners[:, :2], corners[:, 2:])
        high = np.maximum(corners[:, :2], corners[:, 2:])
        ordered = np.concatenate([low, high], axis=1)
        found = {float(label): ordered[labels == label] for label in np.unique(labels)}
        return found, int(np.count_nonzero(wanted & ~finite))


def _overlaps(golden: Boxes, target: Boxes) -> Boxes:
    """Return the intersection over union of all pairs, shape (golden, target).

    Boxes without area have 1 if they are the same, else 0.
    """
    g, t = golden[:, None], target[None]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        low, high = np.maximum(g[..., :2], t[..., :2]), np.minimum(g[..., 2:], t[..., 2:])
        common = np.maximum(high - low, 0).prod(axis=2)
        g_area, t_area = ((b[..., 2:] - b[..., :2]).prod(axis=2) for b in (g, t))
        found = common / (g_area + t_area - common)
    same = np.abs(g - t).max(axis=2, initial=0) == 0
    return np.asarray(np.where(same, 1.0, np.where(np.isfinite(found), found, 0.0)))


def _paired(overlaps: Boxes) -> list[float]:
    """Return the overlaps of pairs of boxes that overlap, by choosing the largest first."""
    rows, columns = np.nonzero(overlaps)
    values = overlaps[rows, columns]
    order = np.argsort(-values, kind="stable")
    free_rows, free_columns = set(rows.tolist()), set(columns.tolist())
    found = []
    for i in order.tolist():
        row, column = int(rows[i]), int(columns[i])
        if row in free_rows and column in free_columns:
            free_rows.discard(row)
            free_columns.discard(column)
            found.append(float(values[i]))
    return found
