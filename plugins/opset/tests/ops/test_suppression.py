"""Suppression within a class against loops over candidates, and soft-NMS worked by hand."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail_opset import _suppression
from dovetail_opset._boxes import Boxes
from dovetail_opset._suppression import best_of_classes, falling, keep_best
from dovetail_opset.ops.suppression import NmsKernel

Run = Callable[..., Any]
F32, I32 = np.float32, np.int32
# Overlaps with the first: 1, 1, 1/2, 1/4 and 0.
NESTED = [[0, 0, 4, 4], [0, 0, 4, 4], [0, 0, 4, 2], [0, 0, 2, 2], [9, 9, 10, 10]]


def corners(seed: int, *shape: int) -> Array:
    """Boxes on a coarse grid: equal ones, touching ones, and some without area."""
    return np.random.default_rng(seed).integers(0, 6, (*shape, 4)).astype(F32)


def scores_of(seed: int, *shape: int) -> Array:
    """A few values only, so that many are equal."""
    return (np.random.default_rng(seed + 1).integers(-1, 6, shape) / 8).astype(F32)


@pytest.mark.parametrize("values", [(), (0.5, -0.0, 0.0), (math.nan, 1.0), range(100)])
def test_falling_order(values: Any) -> None:
    # longer than what NumPy sorts by insertion, which keeps the order of equal numbers
    scores = np.random.default_rng(0).permutation(np.array([*values] * 40, F32))
    for each in (scores, np.unique(scores)):  # NaN comes first
        keys = np.where(np.isnan(each), -math.inf, -each).tolist()
        assert falling(each).tolist() == sorted(range(len(keys)), key=keys.__getitem__)


@given(
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(0, 12),
    st.integers(0, 5),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    st.integers(0, 999),
)
def test_non_max_suppression(
    run_op: Run, suppress: Run, n: int, classes: int, count: int, most: int, iou: float, seed: int
) -> None:
    boxes, scores = corners(seed, n, count), scores_of(seed, n, classes, count)
    found, valid = run_op(
        "NonMaxSuppression",
        boxes,
        scores,
        iou_threshold=iou,
        score_threshold=0.125,
        max_boxes_selected=most,
    )
    want = [
        (i, c, k)
        for i in range(n)
        for c in range(classes)
        for k in suppress(boxes[i].tolist(), scores[i, c].tolist(), 0.125, iou, most)
    ]
    assert (found.dtype, valid.dtype) == (I32, np.uint32)
    assert found.shape == (n * classes * most, 3)
    assert valid.tolist() == [len(want)]
    assert [tuple(row) for row in found[: len(want)].tolist()] == want
    assert not found[len(want) :].any()


@pytest.mark.parametrize("limit", [None, 0, 1, 70, 90])
@pytest.mark.parametrize("touching", [False, True])
@pytest.mark.parametrize(("threshold", "eta"), [(0.25, 1.0), (0.75, 0.99), (0.0, 1.0)])
def test_many_boxes(limit: int | None, touching: bool, threshold: float, eta: float) -> None:
    """More boxes than are compared at a time."""
    rng = np.random.default_rng(4)
    low = rng.integers(0, 60, (400, 2))
    boxes = Boxes.of(np.concatenate([low, low + rng.integers(0, 9, (400, 2))], axis=1).astype(F32))
    order, now, want = rng.permutation(400)[:350], threshold, list[int]()
    for candidate in order.tolist():
        if limit is not None and len(want) == limit:
            break
        worst = max((float(boxes.overlap(k)[candidate]) for k in want), default=0.0)
        if want and (worst >= now if touching else worst > now):
            continue
        want.append(candidate)
        now *= eta if now > 0.5 else 1
    found = keep_best(boxes, order, threshold=threshold, touching=touching, limit=limit, eta=eta)
    assert found.tolist() == want


@pytest.mark.parametrize("limit", [None, 0, 3])
@pytest.mark.parametrize("dtype", [F32, np.int8])
def test_classes_with_few_and_many_boxes(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, limit: int | None
) -> None:
    monkeypatch.setattr(_suppression, "_MOST_PAIRS", 1 << 13)  # so that classes are divided
    boxes = Boxes.of(corners(0, 100))
    random = np.random.default_rng(1)
    shares = np.repeat([0.0, 0.1, 0.6, 0.9], 10)[:, None]  # of boxes above the threshold
    scores = np.where(random.random((40, 100)) < shares, random.integers(1, 9, (40, 100)), -128)
    scores = random.permutation(scores).astype(dtype)
    found = best_of_classes(boxes, scores, 0, 0.3, limit)
    for row, kept in zip(scores, found, strict=True):
        above = np.flatnonzero(row > 0)
        order = above[falling(row[above])]
        wanted = keep_best(boxes, order, threshold=0.3, touching=False, limit=limit)
        assert kept.tolist() == wanted.tolist()


def test_an_overlap_must_exceed_the_threshold_and_a_score_too(run_op: Run) -> None:
    boxes = np.array([NESTED], F32)
    scores = np.array([[[0.9, 0.9, 0.8, 0.7, 0.5]]], F32)
    found, valid = run_op(
        "NonMaxSuppression",
        boxes,
        scores,
        iou_threshold=0.5,
        score_threshold=0.5,
        max_boxes_selected=9,
    )
    # of the equal first two the first stays; 1/2 does not exceed 0.5, nor the last score 0.5
    assert found[: valid[0], 2].tolist() == [0, 2, 3]
    none, valid = run_op("NonMaxSuppression", boxes, scores, iou_threshold=0.5)
    assert (none.shape, valid.tolist()) == ((0, 3), [0])  # the default keeps none


def test_corners_may_be_given_in_any_order(run_op: Run) -> None:
    boxes = np.array([[[0, 0, 4, 4], [4, 4, 0, 0], [0, 4, 4, 0]]], F32)
    _, valid = run_op(
        "NonMaxSuppression",
        boxes,
        np.ones((1, 1, 3), F32),
        iou_threshold=0.9,
        max_boxes_selected=3,
    )
    assert valid.tolist() == [1]


@pytest.mark.parametrize("dtype", [np.float16, np.float64, I32])
def test_non_max_suppression_of_other_types(run_op: Run, dtype: Any) -> None:
    boxes, scores = np.array([NESTED], dtype), np.array([[[9, 9, 8, 7, 5]]], dtype)
    found, valid = run_op(
        "NonMaxSuppression", boxes, scores, iou_threshold=0.3, max_boxes_selected=9
    )
    assert found[: valid[0], 2].tolist() == [0, 3, 4]


def test_shapes_and_types_that_do_not_fit(run_op: Run) -> None:
    with pytest.raises(OpError, match=r"in\[0\] must be \(1, 5, 4\) for in\[1\] \(1, 1, 5\)"):
        run_op(
            "NonMaxSuppression",
            np.ones((1, 4, 4), F32),
            np.ones((1, 1, 5), F32),
            iou_threshold=0.5,
        )
    with pytest.raises(OpError, match=r"in\[1\] must have rank 3"):
        run_op("NonMaxSuppression", np.ones((1, 4, 4), F32), np.ones(4, F32), iou_threshold=0.5)
    with pytest.raises(OpError, match=r"in\[1\] must be a number, but is BOOL_8"):
        run_op(
            "NonMaxSuppression",
            np.ones((1, 4, 4), F32),
            np.ones((1, 1, 4), bool),
            iou_threshold=0.5,
        )


# -- BoxWithNmsLimit ------------------------------------------------------------------------------


def limited(run_op: Run, boxes: Array, scores: Array, batch: Any, rows: int, **params: Any) -> Any:
    given = {
        "nms_kernel_method": NmsKernel.HARD,
        "nms_score_threshold": 0.0,
        "iou_threshold": 0.5,
        "sigma": 0.5,
    } | params
    splits = given.pop("splits", None)
    specs = (Spec(DType.of(boxes.dtype), (rows, 4)),)
    ins = [boxes, scores, np.array(batch, I32)]
    ins += [] if splits is None else [np.array(splits, I32)]
    return run_op("BoxWithNmsLimit", *ins, specs=specs, **given)


def softened(
    boxes: list[Any], scores: list[float], overlap_of: Run, given: dict[str, Any]
) -> list[tuple[int, float]]:
    """Return indices and lowered scores of one class of one image: one box at a time."""
    now = {i: s for i, s in enumerate(scores) if s > given["score_threshold"]}
    kept: list[tuple[int, float]] = []
    most = given["pre_nms_limit"]
    while now and (most < 0 or len(kept) < most):
        best = min(now, key=lambda i: (-now[i], i))
        kept.append((best, now.pop(best)))
        for i in list(now):
            overlap = float(overlap_of(boxes[best], boxes[i]))
            method = given["nms_kernel_method"]
            if method is NmsKernel.GAUSSIAN:
                factor = math.exp(-(overlap**2) / given["sigma"])
            elif overlap < given["iou_threshold"]:
                factor = 1.0
            else:
                factor = 0.0 if method is NmsKernel.HARD else 1 - overlap
            now[i] *= factor
            if factor == 0 or now[i] < given["nms_score_threshold"]:
                del now[i]
    return kept


@given(
    st.sampled_from(NmsKernel),
    st.integers(0, 10),
    st.integers(0, 3),
    st.integers(-1, 4),
    st.integers(0, 999),
)
def test_box_with_nms_limit(
    run_op: Run, overlap_of: Run, kernel: NmsKernel, n: int, classes: int, most: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    boxes, batch = corners(seed, n, classes), rng.integers(0, 3, n)
    # scores whose products are never nearly equal: rounding must not decide between them
    scores = rng.random((n, classes), F32)
    given = {
        "nms_kernel_method": kernel,
        "nms_score_threshold": 0.03,
        "score_threshold": 0.05,
        "pre_nms_limit": most,
        "iou_threshold": 0.25,
        "sigma": 0.3,
    }
    found = limited(
        run_op, boxes.reshape(n, classes * 4), scores, batch, n * classes, splits=[0] * 3, **given
    )
    want: list[tuple[int, int, int, float]] = []
    for image in range(3):
        rows = [i for i in range(n) if batch[i] == image]
        kept = [
            (image, c, rows[k], s)
            for c in range(1, classes)
            for k, s in softened(
                boxes[rows, c].tolist(), scores[rows, c].tolist(), overlap_of, given
            )
        ]
        if most >= 0:
            kept = sorted(sorted(kept, key=lambda row: -row[3])[:most])
        want += sorted(kept, key=lambda row: (row[1], -row[3]))
    count = len(want)
    kept_boxes, values, labels, images, by_image, keeps, by_class = found
    assert list(zip(images[:count], labels[:count], keeps[:count], strict=True)) == [
        row[:3] for row in want
    ]
    # a few float32 products one after the other
    np.testing.assert_allclose(values[:count], [row[3] for row in want], rtol=1e-5)
    for place, (_, label, row, _) in enumerate(want):
        np.testing.assert_array_equal(kept_boxes[place], boxes[row, label])
    assert not any(x[count:].any() for x in (kept_boxes, values, labels, images, keeps))
    assert by_image.tolist() == [sum(row[0] == i for row in want) for i in range(3)]
    assert by_class.tolist() == [sum(row[1] == c for row in want) for c in range(classes)]


def test_soft_nms_by_hand(run_op: Run) -> None:
    # overlaps with the first: 1/2 and 1/4; of the second with the third: 1/2
    boxes = np.array([[0] * 4 + box for box in ([0, 0, 4, 4], [0, 0, 4, 2], [0, 0, 2, 2])], F32)
    scores = np.array([[0, 0.9], [0, 0.8], [0, 0.7]], F32)
    _, linear, *_ = limited(
        run_op, boxes, scores, [0] * 3, 3, nms_kernel_method=NmsKernel.LINEAR, iou_threshold=0.3
    )
    # 0.8 becomes 0.4; 0.7 is left by the first, so it is next and leaves 0.4 * (1 - 1/2)
    np.testing.assert_allclose(linear, [0.9, 0.7, 0.2], rtol=1e-6)  # float32 products
    _, gaussian, *_ = limited(
        run_op, boxes, scores, [0] * 3, 3, nms_kernel_method=NmsKernel.GAUSSIAN, sigma=0.5
    )
    # no half before the square, as TensorFlow has it: exp(-(1/4)^2 / 0.5), exp(-(1/2)^2 / 0.5)
    second = 0.7 * math.exp(-0.125)
    np.testing.assert_allclose(
        gaussian, [0.9, second, 0.8 * math.exp(-0.5) * math.exp(-0.5)], rtol=1e-6
    )
    _, hard, *_ = limited(run_op, boxes, scores, [0] * 3, 3)
    # an overlap equal to the threshold drops here, other than in ONNX and TensorFlow
    np.testing.assert_array_equal(hard, np.array([0.9, 0.7, 0], F32))


def test_the_best_stays_even_below_the_score_threshold_of_lowering(run_op: Run) -> None:
    boxes = np.array([[0] * 4 + [0, 0, 1, 1], [0] * 4 + [5, 5, 6, 6]], F32)
    scores = np.array([[0, 0.4], [0, 0.3]], F32)
    _, values, *_ = limited(run_op, boxes, scores, [0, 0], 2, nms_score_threshold=0.5)
    np.testing.assert_array_equal(values, np.array([0.4, 0], F32))


def test_more_boxes_than_declared_and_images_that_are_not(run_op: Run) -> None:
    boxes = np.array([[0] * 4 + [0, 0, 1, 1], [0] * 4 + [5, 5, 6, 6]], F32)
    scores = np.ones((2, 2), F32)
    with pytest.raises(OpError, match="2 boxes, but the outputs are declared for 1"):
        limited(run_op, boxes, scores, [0, 0], 1)
    with pytest.raises(OpError, match="names image 2 for box 1, but the number of images is 2"):
        limited(run_op, boxes, scores, [0, 2], 2, splits=[1, 1])
    with pytest.raises(OpError, match="known only at run time"):
        run_op(
            "BoxWithNmsLimit",
            boxes,
            scores,
            np.zeros(2, I32),
            nms_kernel_method=0,
            nms_score_threshold=0.0,
            iou_threshold=0.5,
            sigma=0.5,
        )
    with pytest.raises(OpError, match="sigma is 0"):
        limited(run_op, boxes, scores, [0, 0], 2, sigma=0.0, nms_kernel_method=NmsKernel.GAUSSIAN)
    with pytest.raises(OpError, match=r"in\[0\] must be \(2, 8\)"):
        limited(run_op, boxes[:, :4], scores, [0, 0], 2)
