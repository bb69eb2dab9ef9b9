"""Cases of suppression: the best boxes, calculated by hand."""

from __future__ import annotations

import math

import numpy as np

from dovetail.testing import OpCase
from dovetail_opset.testing._boxes import NONE, A, B, C, counts, floats, ints

_BOXES = floats((A, B, C))
# By class: 0 keeps A and C, 1 keeps B alone.
_SCORES = floats(((0.9, 0.1), (0.8, 0.6), (0.7, 0.05)))
_BACKGROUND = floats((0.99, 0.9), (0.99, 0.8), (0.99, 0.7))
_CENTERED = floats((5, 5, 10, 10), (5, 6, 10, 10), (25, 25, 10, 10))
_FEATURES = floats(((1, 2), (3, 4), (5, 6)))


def _limited(
    kernel: int, boxes: tuple[object, ...], scores: tuple[float, ...], name: str, **params: object
) -> tuple[OpCase, ...]:
    """Return BoxWithNmsLimit cases on A, B and C, one class plus background.

    One case is without splits, one with them.
    """
    given = floats((*NONE, *A), (*NONE, *B), (*NONE, *C))
    index, splits = np.zeros(3, np.int32), np.array([3], np.int32)
    kept = ints(*(1 if score else 0 for score in scores))
    shared = {
        "nms_kernel_method": kernel,
        "nms_score_threshold": 0.05,
        "score_threshold": 0.3,
        "iou_threshold": 0.5,
        "sigma": 1.0,
    }
    expected = floats(*boxes), floats(*scores), kept, ints(0, 0, 0)
    return tuple(
        OpCase("BoxWithNmsLimit", inputs, expected, shared | params, name=label)
        for inputs, label in (
            ((given, _BACKGROUND, index), name),
            ((given, _BACKGROUND, index, splits), f"{name}, splits"),
        )
    )


def _detected(
    boxes: tuple[object, ...],
    scores: tuple[float, ...],
    labels: tuple[int, ...],
    name: str,
    **params: object,
) -> OpCase:
    """Return a DetectionOutput case on A, B, C: one class plus background, four rows."""
    rest = 4 - len(boxes)
    count = 6 if params.get("share_location") is False else 3
    shared = {
        "delta_scaling_factors": (1.0, 1.0, 1.0, 1.0),
        "confidence_threshold": 0.3,
        "iou_threshold": 0.5,
        "nms_type": 1,
    }
    return OpCase(
        "DetectionOutput",
        (_BACKGROUND[None], np.zeros((1, count, 4), np.float32), _CENTERED),
        (
            floats((*scores, *[0] * rest)),
            floats((*boxes, *[NONE] * rest)),
            ints((*labels, *[0] * rest)),
            counts(len(boxes)),
        ),
        shared | params,
        name=name,
        atol=1e-5,
    )


CASES: tuple[OpCase, ...] = (
    OpCase(
        "NonMaxSuppression",
        (_BOXES, _SCORES.swapaxes(1, 2)),
        (ints((0, 0, 0), (0, 0, 2), (0, 1, 1), (0, 0, 0)), counts(3)),
        {"iou_threshold": 0.5, "score_threshold": 0.3, "max_boxes_selected": 2},
    ),
    OpCase(
        "NonMaxSuppression",
        (_BOXES, _SCORES.swapaxes(1, 2)[:, :1]),
        (ints((0, 0, 0), (0, 0, 1), (0, 0, 2)), counts(3)),
        {"iou_threshold": 0.9, "max_boxes_selected": 3},
        name="little overlap",
    ),
    OpCase(
        "CombinedNms",
        (_BOXES[:, :, None], _SCORES),
        (
            floats((A, C, B, NONE)),
            floats((0.9, 0.7, 0.6, 0)),
            counts((0, 0, 1, 0)),
            counts(3),
        ),
        {
            "max_boxes_per_class": 2,
            "max_total_boxes": 4,
            "iou_threshold": 0.5,
            "score_threshold": 0.3,
            "clip_boxes": False,
        },
    ),
    OpCase(
        "MultiClassNms",
        (_BOXES, _SCORES, _FEATURES),
        (
            floats((A, C, B, NONE)),
            floats((0.9, 0.7, 0.6, 0)),
            ints((0, 0, 1, 0)),
            counts(3),
            floats(((1, 2), (5, 6), (3, 4), (0, 0))),
        ),
        {"iou_threshold": 0.5, "score_threshold": 0.3},
    ),
    OpCase(
        "MultiClassNms",
        (_BOXES, _SCORES[:, :, :1]),
        (
            floats((A, C, B)),
            floats((0.9, 0.7, 0.8 * math.exp(-((9 / 11) ** 2) / (2 * 0.5)))),
            ints((0, 0, 0)),
            counts(3),
        ),
        {"iou_threshold": 0.5, "score_threshold": 0.3, "soft_nms_sigma": 0.5},
        name="soft",
    ),
    OpCase(
        "CombinedNms",
        (_BOXES[:, :, None] / 20, _SCORES),
        (
            floats((A, (20, 20, 20, 20), B, NONE)) / 20,
            floats((0.9, 0.7, 0.6, 0)),
            counts((0, 0, 1, 0)),
            counts(3),
        ),
        {
            "max_boxes_per_class": 2,
            "max_total_boxes": 10,
            "iou_threshold": 0.5,
            "score_threshold": 0.3,
            "pad_per_class": True,
            "clip_boxes": True,
        },
        name="padded by class, clipped",
    ),
    *_limited(0, (A, C, NONE), (0.9, 0.7, 0), "hard"),
    *_limited(1, (A, C, B), (0.9, 0.7, 0.8 * (1 - 9 / 11)), "linear"),
    *_limited(2, (A, C, B), (0.9, 0.7, 0.8 * math.exp(-((9 / 11) ** 2))), "gaussian"),
    *_limited(0, (A, NONE, NONE), (0.9, 0, 0), "one box", pre_nms_limit=1),
    _detected((A, C), (0.9, 0.7), (1, 1), "regular"),
    _detected((A, C), (0.9, 0.7), (0, 0), "background left out", output_background=False),
    _detected((A,), (0.9,), (1,), "one detection", detection_limit=1),
    _detected((A, C), (0.9, 0.7), (1, 1), "threshold that falls", iou_threshold=0.9, nms_eta=0.5),
    _detected((A, B, C), (0.9, 0.8, 0.7), (1, 1, 1), "much overlap", iou_threshold=0.9),
    _detected((A, C), (0.9, 0.7), (1, 1), "fast", nms_type=0, detection_limit=1),
    _detected((A, C, A, C), (0.99, 0.99, 0.9, 0.7), (0, 0, 1, 1), "background", use_bg_in_nms=True),
    _detected((A, C), (0.99, 0.99), (0, 0), "other background", background_class_idx=1),
    _detected((A, C), (0.9, 0.7), (1, 1), "boxes by class", share_location=False),
)
