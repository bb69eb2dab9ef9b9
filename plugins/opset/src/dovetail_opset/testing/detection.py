"""Cases of detection: boxes, regions, suppression. Worked out by hand.

A and B overlap by 90 of 110, C is far from both.
"""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array
from dovetail.testing import OpCase

_A, _B, _C = (0, 0, 10, 10), (0, 1, 10, 11), (20, 20, 30, 30)
_NONE = (0, 0, 0, 0)


def _floats(*rows: object) -> Array:
    return np.array(rows, np.float32)


def _ints(*rows: object) -> Array:
    return np.array(rows, np.int32)


def _counts(*rows: object) -> Array:
    return np.array(rows, np.uint32)


_BOXES = _floats((_A, _B, _C))
# By class: 0 keeps A and C, 1 keeps B alone.
_SCORES = _floats(((0.9, 0.1), (0.8, 0.6), (0.7, 0.05)))
_BACKGROUND = _floats((0.99, 0.9), (0.99, 0.8), (0.99, 0.7))
_CENTERED = _floats((5, 5, 10, 10), (5, 6, 10, 10), (25, 25, 10, 10))
_FEATURES = _floats(((1, 2), (3, 4), (5, 6)))
# Element (i, j) is 10 i + j: what lies between elements is known.
_RAMP = np.add.outer(10 * np.arange(8), np.arange(8)).astype(np.float32)[None, :, :, None]
# A peak of 1 at 0.2 to the right of the middle element and 0.1 above it.
_HILL = np.array(
    [[1 - (j - 1.2) ** 2 - (i - 0.9) ** 2 for j in range(3)] for i in range(3)], np.float32
)


def _rois(op: str, roi: tuple[int, ...], answer: Array, name: str, **params: object) -> OpCase:
    """A grid of 2 by 2 laid over one region of the ramp."""
    index = np.zeros(1, np.uint32 if op == "RoiPooling" else np.int32)
    return OpCase(
        op,
        (_RAMP, _floats(roi), index),
        answer.reshape(1, 2, 2, 1),
        {"img_size_ratio": (1.0, 1.0), **params},
        name=name,
        atol=1e-4,
    )


_SUPPRESSION: tuple[OpCase, ...] = (
    OpCase(
        "NonMaxSuppression",
        (_BOXES, _SCORES.swapaxes(1, 2)),
        (_ints((0, 0, 0), (0, 0, 2), (0, 1, 1), (0, 0, 0)), _counts(3)),
        {"iou_threshold": 0.5, "score_threshold": 0.3, "max_boxes_selected": 2},
    ),
    OpCase(
        "NonMaxSuppression",
        (_BOXES, _SCORES.swapaxes(1, 2)[:, :1]),
        (_ints((0, 0, 0), (0, 0, 1), (0, 0, 2)), _counts(3)),
        {"iou_threshold": 0.9, "max_boxes_selected": 3},
        name="little overlap",
    ),
    OpCase(
        "CombinedNms",
        (_BOXES[:, :, None], _SCORES),
        (
            _floats((_A, _C, _B, _NONE)),
            _floats((0.9, 0.7, 0.6, 0)),
            _counts((0, 0, 1, 0)),
            _counts(3),
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
            _floats((_A, _C, _B, _NONE)),
            _floats((0.9, 0.7, 0.6, 0)),
            _ints((0, 0, 1, 0)),
            _counts(3),
            _floats(((1, 2), (5, 6), (3, 4), (0, 0))),
        ),
        {"iou_threshold": 0.5, "score_threshold": 0.3},
    ),
    OpCase(
        "BoxWithNmsLimit",
        (
            _floats((*_NONE, *_A), (*_NONE, *_B), (*_NONE, *_C)),
            _BACKGROUND,
            np.zeros(3, np.int32),
        ),
        (_floats(_A, _C, _NONE), _floats(0.9, 0.7, 0), _ints(1, 1, 0), _ints(0, 0, 0)),
        {
            "nms_kernel_method": 0,
            "nms_score_threshold": 0.1,
            "score_threshold": 0.3,
            "iou_threshold": 0.5,
            "sigma": 1.0,
        },
    ),
    OpCase(
        "DetectionOutput",
        (_BACKGROUND[None], np.zeros((1, 3, 4), np.float32), _CENTERED),
        (_floats((0.9, 0.7, 0)), _floats((_A, _C, _NONE)), _ints((1, 1, 0)), _counts(2)),
        {
            "delta_scaling_factors": (1.0, 1.0, 1.0, 1.0),
            "confidence_threshold": 0.3,
            "iou_threshold": 0.5,
            "nms_type": 1,
        },
        atol=1e-5,
    ),
)
_REGIONS: tuple[OpCase, ...] = (
    OpCase(
        "AxisAlignedBboxTransform",
        (
            _floats((10, 20, 30, 40), (80, 80, 100, 100)),
            _floats((0.1, -0.2, math.log(2), 0), (0.5, 0.5, 0, 0)),
            _ints(0, 0),
            _floats((100, 100)),
        ),
        (_floats((2, 16, 42, 36), (90, 90, 100, 100)), _ints(2)),
        atol=1e-4,
    ),
    OpCase(
        "BboxTransform",
        (
            _floats((20, 30, 20, 20, 30)),
            _floats((0.1, -0.2, math.log(2), 0, 0.5)),
            _floats((100, 100, 1)),
        ),
        (_floats((22, 26, 40, 20, 30 + math.degrees(0.5))), _floats(1)),
        {"weights": (1.0, 1.0, 1.0, 1.0)},
        atol=1e-4,
    ),
    OpCase(
        "CollectRpnProposals",
        (
            _floats((0, *_A), (0, *_B), (0, *_C)),
            *[None] * 4,
            _floats(0.2, 0.9, 0.5),
        ),
        _floats((0, *_B), (0, *_C)),
        {"rpn_min_level": 2, "rpn_max_level": 2, "post_nms_top": 2},
    ),
    OpCase(
        "DistributeFpnProposals",
        (_floats((0, 0, 224, 224), (10, 10, 66, 66), (0, 0, 112, 112)),),
        (
            _ints(6, 0, 3),
            _floats((10, 10, 66, 66), _NONE, _NONE),
            _floats((0, 0, 112, 112), _NONE, _NONE),
            _floats((0, 0, 224, 224), _NONE, _NONE),
            _floats(_NONE, _NONE, _NONE),
        ),
        {"roi_min_level": 2, "roi_max_level": 5},
    ),
    OpCase(
        "GenerateProposals",
        (
            _floats(0.3, 0.8).reshape(1, 1, 2, 1),
            np.zeros((1, 1, 2, 4), np.float32),
            _floats((0, 0, 9, 9)),
            _floats((100, 100)),
        ),
        (_floats(0.8, 0.3), _floats((16, 0, 25, 9), (0, 0, 9, 9)), _ints(0, 0)),
        {
            "img_size_ratio": (16.0, 16.0),
            "min_size": 1.0,
            "post_nms_limit": 2,
            "iou_threshold": 0.5,
        },
    ),
    OpCase(
        "HeatMapMaxKeyPoint",
        (_HILL.reshape(1, 3, 3, 1), _floats((0, 0, 30, 60))),
        (_floats((1.0,)), _floats(((17, 28),))),
        atol=1e-3,  # differences of neighbours near 1, in float32, times the box's extent
    ),
    _rois(
        "RoiAlign",
        (1, 1, 5, 5),
        _floats(16.5, 18.5, 36.5, 38.5),
        "aligned",
        num_samples_y=2,
        num_samples_x=2,
        aligned=True,
    ),
    _rois(
        "RoiAlign",
        (1, 1, 5, 5),
        _floats(22, 24, 42, 44),
        "not aligned",
        num_samples_y=3,
        num_samples_x=2,
        aligned=False,
    ),
    _rois("RoiPooling", (1, 1, 4, 4), _floats(22, 24, 42, 44), "two by two"),
)

CASES: tuple[OpCase, ...] = (*_SUPPRESSION, *_REGIONS)
