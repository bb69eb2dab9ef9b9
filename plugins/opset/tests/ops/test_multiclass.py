"""The best boxes of all classes against loops over classes and boxes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add_all

Run = Callable[..., Any]
F32 = np.float32


def inputs(seed: int, n: int, count: int, q: int, classes: int) -> tuple[Array, Array]:
    """Boxes on a coarse grid, partly outside [0, 1], and scores of few values."""
    rng = np.random.default_rng(seed)
    boxes = rng.integers(-2, 7, (n, count, q, 4)) / 4
    return boxes.astype(F32), (rng.integers(-1, 8, (n, count, classes)) / 8).astype(F32)


def check_rows(found: Array, want: list[Any], tail: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(found[: len(want)], np.array(want).reshape(len(want), *tail))
    assert not found[len(want) :].any()


@given(
    st.integers(0, 2),
    st.integers(0, 10),
    st.integers(0, 3),
    st.booleans(),
    st.integers(0, 4),
    st.integers(0, 8),
    st.booleans(),
    st.booleans(),
    st.integers(0, 999),
)
def test_combined(
    run_op: Run,
    suppress: Run,
    n: int,
    count: int,
    classes: int,
    shared: bool,
    each: int,
    total: int,
    pad: bool,
    clip: bool,
    seed: int,
) -> None:
    boxes, scores = inputs(seed, n, count, 1 if shared else classes, classes)
    found, values, labels, valid = run_op(
        "CombinedNms",
        boxes,
        scores,
        max_boxes_per_class=each,
        max_total_boxes=total,
        iou_threshold=0.25,
        score_threshold=0.125,
        pad_per_class=pad,
        clip_boxes=clip,
    )
    most = min(total, each * classes) if pad else total
    assert found.shape == (n, most, 4)
    assert (labels.dtype, valid.dtype) == (np.uint32, np.uint32)
    for i in range(n):
        rows = []
        for c in range(classes):
            of_class = boxes[i, :, 0 if shared else c]
            kept = suppress(of_class.tolist(), scores[i, :, c].tolist(), 0.125, 0.25, each)
            rows += [(scores[i, k, c], c, of_class[k]) for k in kept]
        rows = sorted(rows, key=lambda row: -row[0])[:most]  # stable: by class, then as kept
        assert valid[i] == len(rows)
        check_rows(values[i], [row[0] for row in rows], ())
        check_rows(labels[i], [row[1] for row in rows], ())
        cut = [[min(max(v, 0), 1) if clip else v for v in row[2].tolist()] for row in rows]
        check_rows(found[i], cut, (4,))


@given(
    st.integers(0, 2),
    st.integers(0, 10),
    st.integers(0, 3),
    st.integers(0, 8),
    st.integers(0, 999),
)
def test_multi_class(
    run_op: Run, suppress: Run, n: int, count: int, classes: int, most: int, seed: int
) -> None:
    boxes, scores = inputs(seed, n, count, 1, classes)
    boxes = boxes[:, :, 0]
    names = np.arange(n * count, dtype=np.int32).reshape(n, count)
    masks = np.random.default_rng(seed).standard_normal((n, count, 2, 3)).astype(F32)
    specs = (Spec(DType.FLOAT_32, (n, most, 4)),)
    found, values, labels, valid, which, cut = run_op(
        "MultiClassNms",
        boxes,
        scores,
        names,
        masks,
        specs=specs,
        iou_threshold=0.5,
        score_threshold=0.25,
    )
    assert (labels.dtype, valid.dtype, which.dtype) == (np.int32, np.uint32, np.int32)
    for i in range(n):
        rows = []
        for c in range(classes):
            kept = suppress(boxes[i].tolist(), scores[i, :, c].tolist(), 0.25, 0.5, count)
            rows += [(scores[i, k, c], c, k) for k in kept]
        rows = sorted(rows, key=lambda row: -row[0])[:most]
        assert valid[i] == len(rows)
        check_rows(values[i], [row[0] for row in rows], ())
        check_rows(labels[i], [row[1] for row in rows], ())
        check_rows(found[i], [boxes[i, row[2]] for row in rows], (4,))
        check_rows(which[i], [names[i, row[2]] for row in rows], ())
        check_rows(cut[i], [masks[i, row[2]] for row in rows], (2, 3))


@given(st.integers(0, 8), st.integers(0, 999))
def test_soft_multi_class(run_op: Run, overlap_of: Run, count: int, seed: int) -> None:
    boxes, _ = inputs(seed, 1, count, 1, 1)
    boxes = boxes[:, :, 0]
    rng = np.random.default_rng(seed)
    scores = rng.random((1, count, 2), F32)  # products are never nearly equal
    _, values, labels, valid = run_op(
        "MultiClassNms",
        boxes,
        scores,
        specs=(Spec(DType.FLOAT_32, (1, 20, 4)),),
        iou_threshold=0.0,
        score_threshold=0.1,
        soft_nms_sigma=0.4,
    )
    want = []
    for c in range(2):
        now = {i: float(s) for i, s in enumerate(scores[0, :, c]) if s > 0.1}
        while now:
            best = min(now, key=lambda i: (-now[i], i))
            want.append((now.pop(best), c))
            for i in list(now):
                overlap = float(overlap_of(boxes[0, best], boxes[0, i]))
                now[i] *= math.exp(-(overlap**2) / 0.8)
                if now[i] <= 0.1:
                    del now[i]
    want.sort(key=lambda row: -row[0])
    assert valid.tolist() == [len(want)]
    # a few float32 products one after the other
    np.testing.assert_allclose(values[0, : len(want)], [row[0] for row in want], rtol=1e-5)
    assert sorted(labels[0, : len(want)].tolist()) == sorted(row[1] for row in want)


def test_soft_scores_by_hand(run_op: Run) -> None:
    # overlaps: 1/2 with the first
    boxes = np.array([[[0, 0, 4, 4], [0, 0, 4, 2]]], F32)
    scores = np.array([[[0.9], [0.8]]], F32)
    specs = (Spec(DType.FLOAT_32, (1, 3, 4)),)
    _, values, _, valid = run_op(
        "MultiClassNms", boxes, scores, specs=specs, iou_threshold=0.1, soft_nms_sigma=0.5
    )
    # the threshold is not looked at; float32
    np.testing.assert_allclose(values, [[0.9, 0.8 * math.exp(-0.25), 0]], rtol=1e-6)
    assert valid.tolist() == [2]


def test_scores_may_come_out_in_another_type(run_op: Run) -> None:
    boxes, scores = np.array([[[0, 0, 1, 1]]], F32), np.array([[[0.5]]], np.float16)
    specs = (Spec(DType.FLOAT_16, (1, 2, 4)), Spec(DType.FLOAT_32, (1, 2)))
    found, values, *_ = run_op("MultiClassNms", boxes, scores, specs=specs, iou_threshold=0.5)
    assert (found.dtype, values.dtype) == (np.float16, np.float32)
    np.testing.assert_array_equal(values, np.array([[0.5, 0]], F32))


def test_fixed_point_boxes_and_scores(evaluate: Run) -> None:
    graph = Graph("one")
    encoding, halves = ScaleOffset(0.25, -4), ScaleOffset(1 / 256, 0)
    specs = [
        Spec(DType.UFIXED_POINT_8, (1, 3, 4), encoding),
        Spec(DType.UFIXED_POINT_8, (1, 3, 1), halves),
    ]
    ins = [
        graph.add_tensor(Tensor(name, s.dtype, s.shape, TensorKind.APP_WRITE, encoding=s.encoding))
        for name, s in zip(("boxes", "scores"), specs, strict=True)
    ]
    outs = (
        Spec(DType.UFIXED_POINT_8, (1, 2, 4), encoding),
        Spec(DType.UFIXED_POINT_8, (1, 2), halves),
    )
    made = add_all(graph, "MultiClassNms", ins, name="nms", specs=outs, iou_threshold=0.5)
    boxes = np.array([[[4, 4, 20, 20], [4, 4, 20, 19], [4, 4, 20, 8]]], np.uint8)
    scores = np.array([[[100], [200], [50]]], np.uint8)
    values = evaluate(graph, {"boxes": boxes, "scores": scores})
    found = [values[t.name] for t in made]
    np.testing.assert_array_equal(found[0], boxes[:, [1, 2]])
    assert found[1].tolist() == [[200, 50]]
    assert found[3].tolist() == [2]


def test_refusals(run_op: Run) -> None:
    boxes, scores = np.ones((1, 3, 4), F32), np.ones((1, 3, 2), F32)
    spec = (Spec(DType.FLOAT_32, (1, 2, 4)),)
    with pytest.raises(OpError, match="known only at run time") as caught:
        run_op("MultiClassNms", boxes, scores, iou_threshold=0.5)
    assert "declare" in caught.value.hint
    with pytest.raises(OpError, match=r"in\[2\] must begin with \(1, 3\)"):
        run_op("MultiClassNms", boxes, scores, np.ones(3, F32), specs=spec, iou_threshold=0.5)
    with pytest.raises(OpError, match="must not be negative"):
        run_op("MultiClassNms", boxes, scores, specs=spec, iou_threshold=0.5, soft_nms_sigma=-1.0)
    with pytest.raises(OpError, match=r"in\[0\] must be \(1, 3, 1, 4\) or \(1, 3, 2, 4\)"):
        run_op(
            "CombinedNms",
            boxes,
            scores,
            max_boxes_per_class=1,
            max_total_boxes=1,
            iou_threshold=0.5,
        )
