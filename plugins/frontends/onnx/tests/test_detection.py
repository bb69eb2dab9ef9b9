"""NonMaxSuppression, RoiAlign and MaxRoiPool against the peer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64


def suppression(model: Any, boxes: Any, scores: Any, opset: int = 13, **given: Any) -> Any:
    """A model of one node; limits and thresholds come as constants, None leaves one out."""
    names = ("max_output_boxes_per_class", "iou_threshold", "score_threshold")
    known, inputs = {}, ["boxes", "scores"]
    for name, dtype in zip(names, (I64, F32, F32), strict=True):
        value = given.pop(name, None)
        inputs.append("" if value is None else name)
        if value is not None:
            known[name] = np.array(value, dtype)
    node = helper.make_node("NonMaxSuppression", inputs, ["rows"], name="nms", **given)
    return model([node], {"boxes": boxes, "scores": scores}, ["rows"], known, opset=opset)


def grid_boxes(rng: Any, n: int, count: int) -> tuple[Any, Any]:
    """Boxes on a coarse grid, many of them equal or touching, and scores of few values."""
    boxes = rng.integers(0, 6, (n, count, 4)).astype(F32)
    return boxes, (rng.integers(-2, 9, (n, 3, count)) / 8).astype(F32)


@pytest.fixture
def selected(read, model, evaluate, run_peer):
    """Compare the valid rows of both, and looks for the mark behind them."""

    def run(boxes: Any, scores: Any, **given: Any) -> int:
        made = suppression(model, boxes, scores, **given)
        feeds = {"boxes": boxes, "scores": scores}
        found = evaluate(read(made), feeds)["rows"]
        want = run_peer(made, feeds)["rows"]
        assert found.dtype == I64
        np.testing.assert_array_equal(found[: len(want)], want)
        assert (found[len(want) :] == -1).all()
        return len(want)

    return run


@pytest.mark.parametrize("opset", [10, 11, 17])
@pytest.mark.parametrize("most", [1, 3, 2**62])
@pytest.mark.parametrize("iou", [0.25, 0.5, None])
def test_suppression(selected, rng, opset, most, iou) -> None:
    boxes, scores = grid_boxes(rng, 2, 15)
    assert selected(
        boxes,
        scores,
        opset=opset,
        max_output_boxes_per_class=most,
        iou_threshold=iou,
        score_threshold=0.25,
    )


def test_every_score_counts_without_a_threshold(selected, rng) -> None:
    boxes, scores = grid_boxes(rng, 1, 12)
    kept = selected(boxes, -scores - 1, max_output_boxes_per_class=12, iou_threshold=1.0)
    assert kept == 36


def test_boxes_by_their_centers(selected, rng) -> None:
    boxes, scores = grid_boxes(rng, 2, 15)
    assert selected(
        boxes, scores, max_output_boxes_per_class=9, iou_threshold=0.3, center_point_box=1
    )


@pytest.mark.parametrize("count", [0, 5])
def test_nothing_is_selected(selected, rng, count) -> None:
    boxes, scores = grid_boxes(rng, 1, count)
    assert selected(boxes, scores) == 0  # the limit is 0 where it is left out
    assert selected(boxes, scores, max_output_boxes_per_class=5, score_threshold=9.0) == 0


def test_rows_that_nodes_read_are_refused(model, read, rng) -> None:
    boxes, scores = grid_boxes(rng, 1, 5)
    made = suppression(model, boxes, scores, max_output_boxes_per_class=5)
    made.graph.node.append(helper.make_node("Gather", ["rows", "column"], ["place"], axis=1))
    made.graph.initializer.append(helper.make_tensor("column", TensorProto.INT64, [1], [2]))
    made.graph.output[0].name = "place"
    with pytest.raises(UnsupportedOpError) as caught:
        read(made)
    (problem,) = caught.value.problems
    assert problem.where == "NonMaxSuppression node 'nms'"
    assert (
        "the number of selected boxes depends on the data, and other nodes read" in problem.message
    )
    assert "--out-name rows" in problem.hint


def test_a_limit_from_the_data_is_refused(model, read, rng) -> None:
    boxes, scores = grid_boxes(rng, 1, 5)
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["rows"])
    given = {"boxes": boxes, "scores": scores, "most": np.array([3], I64)}
    with pytest.raises(UnsupportedOpError, match="max_output_boxes_per_class 'most' is computed"):
        read(model([node], given, ["rows"]))


def regions(rng: Any, count: int) -> Any:
    """Regions that reach beyond a feature map of 12 x 16, seen at an eighth."""
    low = rng.uniform(-20, 80, (count, 2))
    return np.concatenate([low, low + rng.uniform(0, 60, (count, 2))], axis=1).astype(F32)


PIXELS = [(10, {})] + [
    (opset, {} if pixels is None else {"coordinate_transformation_mode": pixels})
    for opset in (16, 22)
    for pixels in (None, "half_pixel", "output_half_pixel")
]


@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize(("opset", "given"), PIXELS)
def test_roi_align(model, read, evaluate, run_peer, rng, opset, given, samples) -> None:
    feeds = {
        "x": rng.standard_normal((2, 3, 12, 16)).astype(F32),
        "r": regions(rng, 5),
        "i": np.array([0, 1, 1, 0, 1], I64),
    }
    node = helper.make_node(
        "RoiAlign",
        list(feeds),
        ["y"],
        output_height=3,
        output_width=2,
        sampling_ratio=samples,
        spatial_scale=0.125,
        **given,
    )
    found = evaluate(read(model([node], feeds, ["y"], opset=opset)), feeds)["y"]
    # version 22 only adds a type, and ONNX Runtime does not have it
    want = run_peer(model([node], feeds, ["y"], opset=min(opset, 16)), feeds)["y"]
    # float32 means of up to some ten samples, in another order than the peer's
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_roi_align_with_its_defaults(check, rng) -> None:
    x = rng.standard_normal((1, 2, 5, 6)).astype(F32)
    check("RoiAlign", [x, regions(rng, 2) / 16], known=[np.zeros(2, I64)], opset=16)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize(("opset", "given"), PIXELS)
def test_the_greatest_samples(
    model, read, evaluate, run_peer, rng, opset, given, samples, is_known
) -> None:
    x = rng.standard_normal((2, 3, 12, 16)).astype(F32)
    placed = {"r": regions(rng, 5), "i": np.array([0, 1, 1, 0, 1], I64)}
    feeds = {"x": x} if is_known else {"x": x, **placed}
    node = helper.make_node(
        "RoiAlign",
        ["x", "r", "i"],
        ["y"],
        mode="max",
        output_height=3,
        output_width=2,
        sampling_ratio=samples,
        spatial_scale=0.125,
        **given,
    )
    known = placed if is_known else {}
    graph = read(model([node], feeds, ["y"], known, opset=opset))
    want = run_peer(model([node], feeds, ["y"], known, opset=min(opset, 16)), feeds)["y"]
    # the places of samples are rounded in another order: 1e-6 of an element, times its neighbor
    np.testing.assert_allclose(evaluate(graph, feeds)["y"], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "index", "message"),
    [
        ({}, 2, "unsupported sampling_ratio 0 in mode 'max': the number of samples depends"),
        ({"sampling_ratio": 2, "output_width": 0}, 2, "at least 1 in height and width"),
        (
            {"sampling_ratio": 2},
            3,
            r"regions \(2, 4\) must be \(n, 4\), images \(3,\) \(n,\), and the output \(1, 1\) at",
        ),
        ({"sampling_ratio": 2**30}, 2, "too large"),
    ],
)
def test_the_greatest_samples_of_what_is_refused(
    model, read, rng, attributes, index, message
) -> None:
    x = rng.standard_normal((1, 2, 5, 6)).astype(F32)
    node = helper.make_node("RoiAlign", ["x", "r", "i"], ["y"], mode="max", **attributes)
    given = {"x": x, "r": regions(rng, 2), "i": np.zeros(index, I64)}
    with pytest.raises((FrontendError, UnsupportedOpError), match=message):
        read(model([node], given, ["y"]))


@pytest.mark.parametrize("opset", [7, 17])
@pytest.mark.parametrize("extent", [(1, 1), (3, 2)])
def test_max_roi_pool(check, rng, opset, extent) -> None:
    x = rng.standard_normal((2, 3, 12, 16)).astype(F32)
    images = np.array([[0], [1], [1], [0]], F32)
    rois = np.concatenate([images, regions(rng, 4)], axis=1)
    check("MaxRoiPool", [x, rois], opset=opset, pooled_shape=extent, spatial_scale=0.125)
