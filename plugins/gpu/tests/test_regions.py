"""Regions and key points on a device, against `cpu`."""

import numpy as np
import pytest

from dovetail.ir import DType, Spec
from dovetail.testing import Bench, Status, run_case
from dovetail_opset.testing.regions import CASES

OPS = ("RoiAlign", "HeatMapMaxKeyPoint")
_RNG = np.random.default_rng(7)


def real(*shape):
    return _RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("case", [c for c in CASES if c.op_type in OPS], ids=lambda c: c.id)
def test_op_cases(case):
    outcome = run_case(Bench("gpu"), case)
    assert outcome.status is Status.PASSED, outcome


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [(2, 3), (0, -1)])
def test_roi_align(check_op, aligned, samples):
    corners = _RNG.uniform(-10, 30, (9, 2)).astype(np.float32)
    rois = np.concatenate([corners, corners + _RNG.uniform(0, 25, (9, 2))], 1).astype(np.float32)
    rois[0], rois[1, 2] = (3, 3, 3, 3), np.nan
    x = real(2, 11, 8, 5)
    x[1, 4, 4, 2] = np.inf
    params = {"num_samples_y": samples[0], "num_samples_x": samples[1], "aligned": aligned}
    check_op(
        "RoiAlign",
        x,
        rois,
        np.array([0, 1] * 4 + [0], np.int32),
        specs=(Spec(DType.FLOAT_32, (9, 3, 4, 5)),),
        img_size_ratio=(2.0, 2.5),
        **params,
    )


@pytest.mark.parametrize("is_half", [False, True])
def test_key_points(check_op, is_half):
    maps = real(2, 6, 5, 7)
    maps[0, 2, 1, 3], maps[1, 0, 0, 1] = np.nan, 9
    boxes = np.array([[0, 1, 20, 30], [5, 5, 7, 9]], np.float32)
    check_op("HeatMapMaxKeyPoint", maps, boxes, is_half=is_half, specs=(None,) * 2)
