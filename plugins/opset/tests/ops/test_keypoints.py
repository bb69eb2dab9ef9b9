"""Peaks of heat maps against a least-squares view of them: quadratics whose peaks are known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec

Run = Callable[..., Any]
F32 = np.float32
# float32: differences of second order, divided by each other
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def bowl(height: int, width: int, y: float, x: float, twist: float = 0.3) -> Array:
    """Values of a quadratic that is 5 at (y, x) and falls off around it."""
    down, across = np.mgrid[:height, :width].astype(float)
    dy, dx = down - y, across - x
    return (5 - dy * dy - 2 * dx * dx - twist * dy * dx).astype(F32)


def test_the_peak_of_a_quadratic_is_found_exactly(run_op: Run) -> None:
    peaks = [(2.3, 3.8), (3.0, 2.0), (1.6, 4.4), (4.45, 1.05)]
    heatmaps = np.stack([bowl(6, 7, *peak) for peak in peaks], axis=-1)[None]
    boxes = np.array([[10, 20, 24, 26]], F32)
    scores, points = run_op("HeatMapMaxKeyPoint", heatmaps, boxes)
    assert (scores.shape, points.shape) == ((1, 4), (1, 4, 2))
    np.testing.assert_allclose(scores, [[5] * 4], **TOLERANCE)
    want = [[10 + 14 * (x + 0.5) / 7, 20 + 6 * (y + 0.5) / 6] for y, x in peaks]
    np.testing.assert_allclose(points[0], want, **TOLERANCE)


def test_neighbors_are_mirrored_at_the_border(run_op: Run) -> None:
    # mirrored, the slope across the border is 0, so the peak stays on the corner element
    heatmaps = np.zeros((4, 3, 3, 1), F32)
    for i, corner in enumerate([(0, 0), (0, 2), (2, 0), (2, 2)]):
        heatmaps[i, corner[0], corner[1]] = 2
        heatmaps[i, 1, 1] = 1
    boxes = np.tile(np.array([0, 0, 3, 3], F32), (4, 1))
    scores, points = run_op("HeatMapMaxKeyPoint", heatmaps, boxes)
    np.testing.assert_array_equal(scores, np.full((4, 1), 2, F32))
    want = [[[0.5, 0.5]], [[2.5, 0.5]], [[0.5, 2.5]], [[2.5, 2.5]]]
    np.testing.assert_array_equal(points, np.array(want, F32))


def test_a_peak_is_at_most_one_and_a_half_elements_away(run_op: Run) -> None:
    # nearly flat along the diagonal: the quadratic peaks far away
    grid = np.array([[0.9, 0.5, 0.0], [0.5, 1.0, 0.52], [0.0, 0.52, 0.999]], F32)
    slope, bend = (0.52 - 0.5) / 2, 0.5 - 2 + 0.52
    twist = (0.999 + 0.9) / 4
    far = -slope / (bend + twist)  # the same on both axes
    heatmaps = np.tile(grid, (1, 1)).reshape(1, 3, 3, 1)
    boxes = np.array([[0, 0, 3, 3]], F32)
    scores, points = run_op("HeatMapMaxKeyPoint", heatmaps, boxes)
    np.testing.assert_allclose(points[0, 0], [1.5 + far] * 2, **TOLERANCE)
    steep = grid.copy()
    steep[0, 2] = steep[2, 0] = -1.0045  # bend + twist is nearly 0: the peak would be 3 away
    twist = (0.999 + 0.9 + 2 * 1.0045) / 4
    assert abs(slope / (bend + twist)) > 1.5
    scores, points = run_op("HeatMapMaxKeyPoint", steep.reshape(1, 3, 3, 1), boxes)
    np.testing.assert_allclose(points[0, 0], [1.5 + 1.5] * 2, **TOLERANCE)
    want = 1 + 2 * slope * 1.5 + (bend + twist) * 1.5**2
    np.testing.assert_allclose(scores, [[want]], **TOLERANCE)


def test_flat_maps_and_equal_elements_take_the_first(run_op: Run) -> None:
    heatmaps = np.ones((1, 2, 4, 1), F32)
    scores, points = run_op("HeatMapMaxKeyPoint", heatmaps, np.array([[0, 0, 4, 2]], F32))
    assert scores.tolist() == [[1]]
    assert points.tolist() == [[[0.5, 0.5]]]


def test_points_declared_as_integers_are_rounded(run_op: Run) -> None:
    specs = (Spec(DType.FLOAT_32, (1, 1)), Spec(DType.INT_32, (1, 1, 2)))
    heatmaps = bowl(4, 4, 1.0, 2.0)[None, ..., None]
    boxes = np.array([[0, 0, 100, 50]], np.int32)
    _, points = run_op("HeatMapMaxKeyPoint", heatmaps, boxes, specs=specs)
    assert points.tolist() == [[[62, 19]]]  # 62.5 to even, 18.75


@pytest.mark.parametrize("shape", [(0, 3, 3, 2), (2, 3, 3, 0)])
def test_nothing(run_op: Run, shape: tuple[int, ...]) -> None:
    scores, points = run_op(
        "HeatMapMaxKeyPoint", np.zeros(shape, F32), np.zeros((shape[0], 4), F32)
    )
    assert scores.shape == (shape[0], shape[3])
    assert points.shape == (shape[0], shape[3], 2)


def test_refusals(run_op: Run) -> None:
    with pytest.raises(OpError, match="at least 2 x 2"):
        run_op("HeatMapMaxKeyPoint", np.zeros((1, 1, 4, 1), F32), np.zeros((1, 4), F32))
    with pytest.raises(OpError, match=r"in\[1\] must have shape \(1, 4\)"):
        run_op("HeatMapMaxKeyPoint", np.zeros((1, 2, 2, 1), F32), np.zeros((2, 4), F32))
