"""DetectionOutput on a device, against `cpu`."""

import numpy as np
import pytest

from dovetail.ir import DType, Spec
from dovetail.testing import Bench, Status, run_case
from dovetail_opset.testing.suppression import CASES

_RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.op_type == "DetectionOutput"], ids=lambda c: c.id
)
def test_op_cases(case):
    outcome = run_case(Bench("gpu"), case)
    assert outcome.status is Status.PASSED, outcome


@pytest.mark.parametrize("nms_type", [0, 1])
@pytest.mark.parametrize("limit", [-1, 0, 2])
@pytest.mark.parametrize("background", [(True, True), (True, False), (False, True)])
def test_images(check_op, nms_type, limit, background):
    scores = _RNG.permutation(2 * 40 * 5).reshape(2, 40, 5).astype(np.float32) / 400
    scores[0, 3, 1] = np.nan
    deltas = _RNG.normal(0, 0.1, (2, 40, 4)).astype(np.float32)
    anchors = _RNG.uniform(5, 20, (80, 4)).astype(np.float32)
    check_op(
        "DetectionOutput",
        scores,
        deltas,
        anchors,
        specs=(
            Spec(DType.FLOAT_32, (2, 12)),
            Spec(DType.FLOAT_32, (2, 12, 4)),
            Spec(DType.INT_32, (2, 12)),
            Spec(DType.UINT_32, (2,)),
        ),
        delta_scaling_factors=(1.0, 2.0, 1.0, 0.5),
        confidence_threshold=0.3,
        iou_threshold=0.6,
        nms_type=nms_type,
        detection_limit=limit,
        use_bg_in_nms=background[0],
        output_background=background[1],
        background_class_idx=1,
        nms_eta=0.9,
    )
