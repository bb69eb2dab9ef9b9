"""MeanIOU, next to numbers worked out by hand and a definition by loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dovetail.ir import Array
from dovetail.plugins.verifiers import verifier
from dovetail.verification import Comparison, VerificationError

UNIT = (0.0, 0, 1, 1)


def compare(g: Any, t: Any, g_class: Any = None, t_class: Any = None, **params: Any) -> Comparison:
    golden, target = np.array(g, float).reshape(-1, 4), np.array(t, float).reshape(-1, 4)
    classes = [np.full(len(golden), 2) if c is None else np.array(c) for c in (g_class, t_class)]
    return verifier("MeanIOU", params).compare(golden, target, *classes)


@pytest.mark.parametrize(
    ("golden", "target", "value"),
    [
        ([UNIT], [UNIT], 1),
        ([UNIT], [(0, 0, 1, 0.5)], 1 / 2),
        ([UNIT], [(0.5, 0.5, 1.5, 1.5)], 0.25 / 1.75),
        ([UNIT], [(2, 2, 3, 3)], 0),
        ([UNIT], [(1, 1, 0, 0)], 1),  # corners in another order
        ([(0, 0, 0, 0)], [(0, 0, 0, 0)], 1),
        ([(0, 0, 0, 0)], [UNIT], 0),
        # two boxes that both overlap one of the others: the larger overlap is paired
        ([UNIT, (5, 5, 6, 6)], [(0, 0, 1, 0.5), (0, 0, 1, 0.8)], 0.8 / 3),
        ([], [], 1),
    ],
)
def test_boxes_of_one_class(golden: Any, target: Any, value: float) -> None:
    assert compare(golden, target).value == pytest.approx(value)


def test_classes_must_agree() -> None:
    found = compare([UNIT, UNIT], [UNIT, UNIT], [2, 3], [2, 4])
    assert found.value == pytest.approx(1 / 3)
    assert found.details["golden_without_partner"] == 1
    assert found.details["target_without_partner"] == 1


def test_boxes_of_the_background_are_left_out() -> None:
    far = (9.0, 9, 10, 10)
    found = compare([UNIT, far], [UNIT, UNIT], [2, 1], [2, 1])
    assert (found.passed, found.value, found.details["pairs"]) == (True, 1, 1)
    found = compare([UNIT, far], [UNIT, UNIT], [2, 1], [2, 1], background_classification=0)
    assert found.value == pytest.approx(1 / 3)


def test_a_box_that_is_not_finite_has_no_partner() -> None:
    odd = (0, 0, 1, math.nan)
    found = compare([UNIT, odd], [UNIT, UNIT])
    assert found.value == pytest.approx(1 / 3)
    assert (found.details["golden_not_finite"], found.details["target_not_finite"]) == (1, 0)
    assert compare([odd], [odd]).value == 0


def iou(one: Array, other: Array) -> float:
    (y, x, b, r), (v, u, d, s) = one, other
    common = max(0.0, min(b, d) - max(y, v)) * max(0.0, min(r, s) - max(x, u))
    union = (b - y) * (r - x) + (d - v) * (s - u) - common
    return common / union if union else float(tuple(one) == tuple(other))


def by_loops(golden: Array, target: Array, g_class: Array, t_class: Array) -> float:
    pairs = [
        (-iou(g, t), i, j)
        for i, g in enumerate(golden)
        for j, t in enumerate(target)
        if g_class[i] == t_class[j] != 1
    ]
    count, total = int((g_class != 1).sum() + (t_class != 1).sum()), 0.0
    used: set[tuple[str, int]] = set()
    for negative, i, j in sorted(pairs):
        if negative < 0 and not {("g", i), ("t", j)} & used:
            used |= {("g", i), ("t", j)}
            total, count = total - negative, count - 1
    return total / count if count else 1.0


@st.composite
def images(draw: Any) -> tuple[Array, ...]:
    count = draw(st.integers(0, 5))
    boxes = []
    for _ in range(2):
        low = draw(hnp.arrays(float, (count, 2), elements=st.integers(0, 3)))
        size = draw(hnp.arrays(float, (count, 2), elements=st.integers(0, 3)))
        boxes.append(np.concatenate([low, low + size], axis=1))
    classes = [draw(hnp.arrays(np.int64, count, elements=st.integers(0, 2))) for _ in range(2)]
    return (*boxes, *classes)


@settings(max_examples=300)
@given(images())
def test_values_are_those_of_the_definition(image: tuple[Array, ...]) -> None:
    found = verifier("MeanIOU").compare(*image)
    expected = by_loops(*image)
    # Of equal overlaps, another may be paired first.
    tied = len({iou(g, t) for g in image[0] for t in image[1]}) < len(image[0]) * len(image[1])
    assert 0 <= found.value <= 1
    if not tied:
        assert found.value == pytest.approx(expected)


@given(images(), st.permutations(range(5)))
def test_the_order_of_boxes_does_not_matter(image: tuple[Array, ...], order: list[int]) -> None:
    golden, _, classes, _ = image
    order = [i for i in order if i < len(golden)]
    found = verifier("MeanIOU").compare(golden, golden[order], classes, classes[order])
    assert found.value == 1


def test_a_stream_of_images_is_one_comparison() -> None:
    rng = np.random.default_rng(0)
    golden = rng.uniform(0, 1, (6, 20, 4))
    target = golden + rng.uniform(0, 0.1, golden.shape)
    classes = rng.integers(0, 4, (6, 20, 1)).astype(np.float32)
    whole = verifier("MeanIOU").compare(golden, target, classes, classes)
    run = verifier("MeanIOU").begin()
    for image in range(6):
        part = slice(image, image + 1)
        run.update(golden[part], target[part], classes[part], classes[part])
    assert run.finish().value == pytest.approx(whole.value)
    assert run.finish().details == whole.details
    assert 0 < whole.value < 1


@pytest.mark.parametrize(
    ("boxes", "classes"),
    [((3, 5), (3,)), ((3, 4), (4,)), ((2, 3, 4), (3,)), ((), ()), ((4,), (4,))],
)
def test_other_shapes_are_rejected(boxes: tuple[int, ...], classes: tuple[int, ...]) -> None:
    with pytest.raises(VerificationError, match="expected boxes of shape"):
        verifier("MeanIOU").compare(*(np.zeros(s) for s in (boxes, boxes, classes, classes)))


def test_too_many_boxes_are_rejected_before_their_overlaps_are_computed() -> None:
    boxes, classes = np.zeros((100_000, 4)), np.zeros(100_000)
    with pytest.raises(VerificationError, match="more than 2048 boxes of class 0"):
        verifier("MeanIOU").compare(boxes, boxes, classes, classes)
