"""Cases of boxes, proposals and regions of interest, calculated by hand."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array
from dovetail.testing import OpCase
from dovetail_opset.testing._boxes import NONE, A, B, C, floats, ints

# Element (i, j) is 10 i + j: values between elements are known.
_RAMP = np.add.outer(10 * np.arange(8), np.arange(8)).astype(np.float32)[None, :, :, None]
# A peak of 1 at 0.2 to the right of the middle element and 0.1 above it.
_HILL = np.array(
    [[1 - (j - 1.2) ** 2 - (i - 0.9) ** 2 for j in range(3)] for i in range(3)], np.float32
)


def _rois(op: str, roi: tuple[int, ...], expected: Array, name: str, **params: object) -> OpCase:
    """Return a case with a grid of 2 by 2 over one region of the ramp."""
    index = np.zeros(1, np.uint32 if op == "RoiPooling" else np.int32)
    return OpCase(
        op,
        (_RAMP, floats(roi), index),
        expected.reshape(1, 2, 2, 1),
        {"img_size_ratio": (1.0, 1.0), **params},
        name=name,
        atol=1e-4,
    )


def _turned(
    angle: float,
    box: tuple[float, ...],
    name: str,
    scale: float = 1,
    width: float = 100,
    **params: object,
) -> OpCase:
    """Return a case of BboxTransform with one box, rotated by half a radian."""
    return OpCase(
        "BboxTransform",
        (
            floats((20, 30, 20, 20, angle)),
            floats((0.1, -0.2, math.log(2), 0, 0.5)),
            floats((100, width, scale)),
            ints(0),
        ),
        (floats(box), floats(1)),
        {"weights": (1.0, 1.0, 1.0, 1.0), "apply_scale": False, **params},
        name=name,
        atol=1e-4,
    )


CASES: tuple[OpCase, ...] = (
    OpCase(
        "AxisAlignedBboxTransform",
        (
            floats((10, 20, 30, 40), (80, 80, 100, 100)),
            floats((0.1, -0.2, math.log(2), 0), (0.5, 0.5, 0, 0)),
            ints(0, 0),
            floats((100, 100)),
        ),
        (floats((2, 16, 42, 36), (90, 90, 100, 100)), ints(2)),
        atol=1e-4,
    ),
    OpCase(
        "AxisAlignedBboxTransform",
        (
            floats((10, 20, 30, 40)),
            floats((1, -2, 5 * math.log(2), 0)),
            ints(0),
            floats((100, 100)),
        ),
        (floats((2, 16, 42, 36)), ints(1)),
        {"weights": (10.0, 10.0, 5.0, 5.0)},
        name="weights",
        atol=1e-4,
    ),
    _turned(30, (22, 26, 40, 20, 30 + math.degrees(0.5)), "plain"),
    _turned(30, (11, 13, 20, 10, 30 + math.degrees(0.5)), "back to the image", scale=2),
    _turned(
        30, (22, 26, 40, 20, 30 + math.degrees(0.5)), "scaled image", scale=2, apply_scale=True
    ),
    _turned(80, (22, 26, 40, 20, 80 + math.degrees(0.5) - 180), "bounded", angle_bounds=(-90, 90)),
    _turned(-math.degrees(0.5), (21, 26, 38, 20, 0), "cut", angle_clip_threshold=1.0, width=40),
    OpCase(
        "CollectRpnProposals",
        (
            floats((0, *A), (0, *B), (0, *C)),
            *[None] * 4,
            floats(0.2, 0.9, 0.5),
        ),
        floats((0, *B), (0, *C)),
        {"rpn_min_level": 2, "rpn_max_level": 2, "post_nms_top": 2},
    ),
    OpCase(
        "CollectRpnProposals",
        (
            *(floats((0, *box)) for box in (A, B, C, A, B)),
            *(floats(score) for score in (0.2, 0.9, 0.5, 0.95, 0.1)),
        ),
        floats((0, *A), (0, *B), (0, *C)),
        {"rpn_min_level": 2, "rpn_max_level": 6, "post_nms_top": 3},
        name="five levels",
    ),
    OpCase(
        "DistributeFpnProposals",
        (floats((1, 0, 0, 224, 224), (0, 10, 10, 66, 66)),),
        (
            ints(2, 0),
            floats((0, 10, 10, 66, 66), (0,) * 5),
            floats((1, 0, 0, 224, 224), (0,) * 5),
        ),
        # 56 is one octave below 112 and 224 one above: levels 2 and 4, kept within 2 and 3
        {
            "roi_min_level": 2,
            "roi_max_level": 3,
            "roi_canonical_scale": 112,
            "roi_canonical_level": 3,
        },
        name="canonical",
    ),
    OpCase(
        "DistributeFpnProposals",
        (floats((0, 0, 224, 224), (10, 10, 66, 66), (0, 0, 112, 112)),),
        (
            ints(6, 0, 3),
            floats((10, 10, 66, 66), NONE, NONE),
            floats((0, 0, 112, 112), NONE, NONE),
            floats((0, 0, 224, 224), NONE, NONE),
            floats(NONE, NONE, NONE),
        ),
        {"roi_min_level": 2, "roi_max_level": 5},
    ),
    OpCase(
        "GenerateProposals",
        (
            floats(0.3, 0.8).reshape(1, 1, 2, 1),
            np.zeros((1, 1, 2, 4), np.float32),
            floats((0, 0, 9, 9)),
            floats((100, 100)),
        ),
        (floats(0.8, 0.3), floats((16, 0, 25, 9), (0, 0, 9, 9)), ints(0, 0)),
        {
            "img_size_ratio": (16.0, 16.0),
            "min_size": 1.0,
            "post_nms_limit": 2,
            "iou_threshold": 0.5,
        },
    ),
    OpCase(
        "GenerateProposals",
        (
            floats(0.3, 0.8).reshape(1, 1, 2, 1),
            floats((0, 0, 0, 0), (0, 0, 10, 0)).reshape(1, 1, 2, 4),
            floats((0, 0, 9, 9)),
            floats((2000, 2000)),
        ),
        # 62.5 times as wide around 20.5
        (floats(0.8), floats((0, 0, 20.5 + 4.5 * 62.5, 9)), ints(0)),
        {
            "img_size_ratio": (16.0, 16.0),
            "pre_nms_limit": 1,
            "iou_threshold": 0.5,
            "bbox_xform_clip": True,
        },
        name="bounded stretch, one region",
        atol=1e-4,
    ),
    OpCase(
        "HeatMapMaxKeyPoint",
        (np.ones((1, 4, 2, 1), np.float32), floats((10, 20, 30, 60))),
        # all alike: the first element, whose middle is a quarter across and an eighth down
        (floats((1.0,)), floats(((15, 25),))),
        name="flat",
    ),
    OpCase(
        "HeatMapMaxKeyPoint",
        (_HILL.reshape(1, 3, 3, 1), floats((0, 0, 30, 60))),
        (floats((1.0,)), floats(((17, 28),))),
        atol=1e-3,  # differences of neighbors near 1, in float32, times the box's size
    ),
    _rois(
        "RoiAlign",
        (1, 1, 5, 5),
        floats(16.5, 18.5, 36.5, 38.5),
        "aligned",
        num_samples_y=2,
        num_samples_x=2,
        aligned=True,
    ),
    _rois(
        "RoiAlign",
        (1, 1, 5, 5),
        floats(22, 24, 42, 44),
        "not aligned",
        num_samples_y=3,
        num_samples_x=2,
        aligned=False,
    ),
    _rois(
        "RoiAlign",
        (5, 5, 1, 1),
        floats(0, 0, 0, 0),
        "invalid",
        num_samples_y=0,
        num_samples_x=0,
        aligned=True,
        allow_invalid_roi=True,
    ),
    _rois(
        "RoiPooling",
        (2, 2, 8, 8),
        floats(22, 24, 42, 44),
        "half the image's size",
        img_size_ratio=(2.0, 2.0),
    ),
    _rois("RoiPooling", (1, 1, 4, 4), floats(22, 24, 42, 44), "two by two"),
)
