"""DetectionOutput against loops over anchors and classes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail_opset.ops.detection import NmsType

Run = Callable[..., Any]
F32 = np.float32
FACTORS = [10.0, 5.0, 2.0, 4.0]
GIVEN: dict[str, Any] = {
    "delta_scaling_factors": FACTORS,
    "confidence_threshold": 0.25,
    "iou_threshold": 0.3,
}


def randoms(seed: int, n: int, anchors: int, classes: int, boxes: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(seed)
    # distinct scores in each image: nothing hangs on how equal ones are ordered
    scores = np.stack([rng.permutation(anchors * classes) for _ in range(n)]) if n else []
    scores = (np.array(scores).reshape(n, anchors, classes) + 1) / max(anchors * classes, 1)
    priors = np.concatenate(
        [rng.uniform(0, 2, (n * anchors, 2)), rng.uniform(0.5, 2, (n * anchors, 2))], axis=1
    )
    return scores.astype(F32), rng.uniform(-1, 1, (n, boxes, 4)).astype(F32), priors.astype(F32)


def decode(delta: Array, anchor: Array) -> list[float]:
    dy, dx, dh, dw = (float(v) / f for v, f in zip(delta, FACTORS, strict=True))
    y, x, h, w = (float(v) for v in anchor)
    y, x = y + dy * h, x + dx * w
    h, w = h * math.exp(dh), w * math.exp(dw)
    return [y - h / 2, x - w / 2, y + h / 2, x + w / 2]


def greedy(
    boxes: list[list[float]], scores: list[float], overlap_of: Run, limit: int, eta: float
) -> list[int]:
    """Indices of kept boxes, with a threshold that falls after each one."""
    threshold, kept = GIVEN["iou_threshold"], []
    if eta < 1:
        threshold = 0.8
    for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
        if scores[i] <= GIVEN["confidence_threshold"] or len(kept) == limit:
            continue
        if all(overlap_of(boxes[i], boxes[k]) < threshold for k in kept):
            kept.append(i)
            if eta < 1 and threshold > 0.5:
                threshold *= eta
    return kept


def check(results: Any, image: int, rows: list[tuple[float, int, list[float]]], most: int) -> None:
    scores, boxes, labels, counts = (r[image] for r in results)
    rows = rows[:most]
    assert counts == len(rows)
    np.testing.assert_array_equal(scores[: len(rows)], np.array([r[0] for r in rows], F32))
    assert labels[: len(rows)].tolist() == [r[1] for r in rows]
    want = np.array([r[2] for r in rows]).reshape(-1, 4)
    np.testing.assert_allclose(boxes[: len(rows)], want, rtol=1e-5, atol=1e-6)  # float32
    assert not any(x[len(rows) :].any() for x in (scores, boxes, labels))


@given(
    st.integers(0, 2),
    st.integers(0, 8),
    st.integers(1, 4),
    st.integers(0, 20),
    st.sampled_from([-1, 0, 1, 2]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1.0, 0.7]),
    st.integers(0, 2),
    st.integers(0, 999),
)
def test_regular(
    run_op: Run,
    overlap_of: Run,
    n: int,
    anchors: int,
    classes: int,
    most: int,
    limit: int,
    shared: bool,
    use: bool,
    show: bool,
    eta: float,
    hidden: int,
    seed: int,
) -> None:
    width = 1 if shared else classes
    scores, deltas, priors = randoms(seed, n, anchors, classes, anchors * width)
    given = GIVEN | ({"iou_threshold": 0.8} if eta < 1 else {})
    results = run_op(
        "DetectionOutput",
        scores,
        deltas,
        priors,
        specs=(Spec(DType.FLOAT_32, (n, most)),),
        nms_type=NmsType.REGULAR,
        background_class_idx=hidden,
        use_bg_in_nms=use,
        output_background=show,
        share_location=shared,
        nms_eta=eta,
        detection_limit=limit,
        **given,
    )
    assert [r.dtype for r in results] == [F32, F32, np.int32, np.uint32]
    for i in range(n):
        rows = []
        for c in range(classes):
            if c == hidden and not (use and show):
                continue
            boxes = [
                decode(deltas[i, a * width + (0 if shared else c)], priors[i * anchors + a])
                for a in range(anchors)
            ]
            for a in greedy(boxes, scores[i, :, c].tolist(), overlap_of, limit, eta):
                label = c if show else c - (c > hidden)
                rows.append((float(scores[i, a, c]), label, boxes[a]))
        check(results, i, sorted(rows, key=lambda row: -row[0]), most)


@given(
    st.integers(0, 2),
    st.integers(0, 8),
    st.integers(1, 4),
    st.integers(0, 12),
    st.sampled_from([-1, 0, 1, 2]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 999),
)
def test_fast(
    run_op: Run,
    overlap_of: Run,
    n: int,
    anchors: int,
    classes: int,
    most: int,
    limit: int,
    use: bool,
    show: bool,
    seed: int,
) -> None:
    scores, deltas, priors = randoms(seed, n, anchors, classes, anchors)
    results = run_op(
        "DetectionOutput",
        scores,
        deltas,
        priors,
        specs=(Spec(DType.FLOAT_32, (n, most)),),
        use_bg_in_nms=use,
        output_background=show,
        detection_limit=limit,
        **GIVEN,
    )
    part = [c for c in range(classes) if use or c]
    for i in range(n):
        boxes = [decode(deltas[i, a], priors[i * anchors + a]) for a in range(anchors)]
        best = [max((float(scores[i, a, c]) for c in part), default=0) for a in range(anchors)]
        rows = []
        for a in greedy(boxes, best, overlap_of, -1, 1.0):
            ranked = sorted(part, key=lambda c: -scores[i, a, c])
            for c in ranked if limit < 0 else ranked[:limit]:
                if show or c:
                    rows.append((float(scores[i, a, c]), c if show else c - 1, boxes[a]))
        check(results, i, rows, most)


def test_an_overlap_equal_to_the_threshold_drops(run_op: Run) -> None:
    # the second box is the upper half of the first
    anchors = np.array([[2, 2, 4, 4], [1, 2, 2, 4]], F32)
    scores = np.array([[[0, 0.9], [0, 0.8]]], F32)
    given = GIVEN | {"iou_threshold": 0.5}
    *_, count = run_op(
        "DetectionOutput",
        scores,
        np.zeros((1, 2, 4), F32),
        anchors,
        specs=(Spec(DType.FLOAT_32, (1, 2)),),
        nms_type=NmsType.REGULAR,
        **given,
    )
    assert count.tolist() == [1]


def test_refusals(run_op: Run) -> None:
    scores, deltas, priors = randoms(0, 1, 2, 2, 2)
    spec = (Spec(DType.FLOAT_32, (1, 3)),)
    with pytest.raises(OpError, match="the number of detections is known only at run time"):
        run_op("DetectionOutput", scores, deltas, priors, **GIVEN)
    with pytest.raises(OpError, match=r"in\[1\] must have shape \(1, 4, 4\)"):
        run_op(
            "DetectionOutput",
            scores,
            deltas,
            priors,
            specs=spec,
            share_location=False,
            nms_type=NmsType.REGULAR,
            **GIVEN,
        )
    with pytest.raises(OpError, match="FAST takes each anchor once") as caught:
        run_op(
            "DetectionOutput",
            scores,
            np.zeros((1, 4, 4), F32),
            priors,
            specs=spec,
            share_location=False,
            **GIVEN,
        )
    assert "REGULAR" in caught.value.hint
    with pytest.raises(OpError, match="detection_limit is -2"):
        run_op("DetectionOutput", scores, deltas, priors, specs=spec, detection_limit=-2, **GIVEN)
    with pytest.raises(OpError, match=r"in\[2\] must have shape \(2, 4\)"):
        run_op("DetectionOutput", scores, deltas, priors[:1], specs=spec, **GIVEN)
