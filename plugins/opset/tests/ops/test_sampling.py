"""Sampling at positions that are data, against definitions written position by position."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail_opset.ops.sampling import GridMode, GridPadding, ImageMode

Run = Callable[..., Any]
# float32 places, up to 9 elements of the image, carry 1e-6; neighbors differ by some units
TOLERANCE = {"rtol": 1e-4, "atol": 2e-5}


def element(image: Array, index: tuple[int, ...], padding: GridPadding) -> Array:
    """Return an element of (*spatial, c), or what is beyond the border."""
    if padding is not GridPadding.ZEROS:
        index = tuple(min(max(i, 0), n - 1) for i, n in zip(index, image.shape[:-1], strict=True))
    if all(0 <= i < n for i, n in zip(index, image.shape[:-1], strict=True)):
        return image[index].astype(np.float64)
    return np.zeros(image.shape[-1])


def linear(image: Array, place: list[float], padding: GridPadding) -> Array:
    """Interpolate between the 2 ** d elements around a position."""
    found = np.zeros(image.shape[-1])
    for step in itertools.product((0, 1), repeat=len(place)):
        index = tuple(math.floor(p) + s for p, s in zip(place, step, strict=True))
        weight = math.prod(1 - abs(p - i) for p, i in zip(place, index, strict=True))
        found += weight * element(image, index, padding)
    return found


def mirrored(place: float, low: float, high: float) -> float:
    if high == low:
        return low
    while not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    return place


def pixel(grid: float, extent: int, *, corners: bool, padding: GridPadding) -> float:
    place = (grid + 1) / 2 * (extent - 1) if corners else ((grid + 1) * extent - 1) / 2
    if padding is GridPadding.REFLECTION:
        ends = (0, extent - 1) if corners else (-0.5, extent - 0.5)
        place = min(max(mirrored(place, *ends), 0), extent - 1)
    return place


@st.composite
def grids(draw: st.DrawFn) -> tuple[Array, Array]:
    axes = draw(st.integers(2, 3))
    extents = draw(st.tuples(*[st.integers(1, 5)] * axes))
    new = draw(st.tuples(*[st.integers(1, 3)] * axes))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((2, *extents, 2), np.float32)
    return x, rng.uniform(-2.5, 2.5, (2, *new, axes)).astype(np.float32)


@settings(max_examples=100)
@given(grids(), st.booleans(), st.sampled_from(GridPadding))
def test_grid_sample(
    run_op: Run, drawn: tuple[Array, Array], corners: bool, padding: GridPadding
) -> None:
    x, grid = drawn
    y = run_op("GridSample", x, grid, align_corners=corners, padding_mode=padding)
    assert (y.shape, y.dtype) == ((*grid.shape[:-1], 2), np.float32)
    for at in np.ndindex(*grid.shape[:-1]):
        named = reversed([float(v) for v in grid[at]])
        place = [
            pixel(v, n, corners=corners, padding=padding)
            for v, n in zip(named, x.shape[1:-1], strict=True)
        ]
        np.testing.assert_allclose(y[at], linear(x[at[0]], place, padding), **TOLERANCE)


@pytest.mark.parametrize("padding", GridPadding)
@pytest.mark.parametrize("corners", [False, True])
def test_nearest_of_a_grid(run_op: Run, corners: bool, padding: GridPadding) -> None:
    x = np.arange(20, dtype=np.int32).reshape(1, 4, 5, 1) + 1
    grid = np.stack(np.meshgrid(np.linspace(-1.9, 1.9, 23), np.linspace(-1.7, 1.7, 19)), -1)[None]
    params = {"align_corners": corners, "padding_mode": padding, "mode": GridMode.NEAREST}
    y = run_op("GridSample", x, grid, **params)
    for at in np.ndindex(19, 23):
        across, down = (float(v) for v in grid[0][at])
        row, column = (
            round(pixel(v, n, corners=corners, padding=padding))
            for v, n in ((down, 4), (across, 5))
        )
        assert y[0][at] == element(x[0], (row, column), padding)


def test_nearest_of_a_grid_rounds_half_to_even(run_op: Run) -> None:
    x = np.array([[10, 20, 30, 40]], np.float32).reshape(1, 1, 4, 1)
    grid = np.zeros((1, 1, 3, 2), np.float32)
    grid[0, 0, :, 0] = np.array([0.5, 1.5, 2.5]) * 2 / 3 - 1
    y = run_op("GridSample", x, grid, align_corners=True, mode=GridMode.NEAREST)
    np.testing.assert_array_equal(y.ravel(), [10, 30, 30])


@pytest.mark.parametrize("padding", GridPadding)
@pytest.mark.parametrize("mode", GridMode)
def test_places_that_are_no_number(run_op: Run, mode: GridMode, padding: GridPadding) -> None:
    x = np.full((1, 2, 2, 1), 3, np.float32)
    grid = np.full((1, 1, 2, 2), [np.nan, 0], np.float32)
    grid[0, 0, 1] = [np.inf, 0]
    y = run_op("GridSample", x, grid, mode=mode, padding_mode=padding)
    first, second = y.ravel()
    assert first == (0 if padding is GridPadding.ZEROS else 3)
    # a mirror gives infinity no place either
    assert second == (0 if padding is GridPadding.ZEROS else 3)


def test_empty_grids(run_op: Run) -> None:
    x = np.zeros((2, 0, 3, 1), np.float32)
    assert run_op("GridSample", x, np.zeros((2, 0, 4, 2), np.float32)).shape == (2, 0, 4, 1)


def box_line(begin: float, end: float, extent: int, count: int) -> list[float]:
    if count == 1:
        return [(begin + end) / 2 * (extent - 1)]
    return [(begin + (end - begin) * i / (count - 1)) * (extent - 1) for i in range(count)]


@pytest.mark.parametrize("mode", ImageMode)
@pytest.mark.parametrize("size", [(3, 4), (1, 2), (5, 1)])
def test_crop_and_resize(run_op: Run, rng: Any, mode: ImageMode, size: tuple[int, int]) -> None:
    x = rng.standard_normal((2, 5, 6, 3)).astype(np.float32)
    boxes = rng.uniform(-0.3, 1.3, (4, 4)).astype(np.float32)
    index = np.array([1, 0, 1, 1], np.int32)
    params = {"resize_dims": size, "interpolation_mode": mode, "extrapolation_value": -7.0}
    y = run_op("CropAndResize", x, boxes, index, **params)
    assert y.shape == (4, *size, 3)
    for m, r, c in np.ndindex(4, *size):
        y1, x1, y2, x2 = (float(v) for v in boxes[m])
        place = [box_line(y1, y2, 5, size[0])[r], box_line(x1, x2, 6, size[1])[c]]
        if not (0 <= place[0] <= 4 and 0 <= place[1] <= 5):
            want: Any = np.full(3, -7)
        elif mode is ImageMode.BILINEAR:
            want = linear(x[index[m]], place, GridPadding.BORDER)
        else:
            want = x[index[m], math.floor(place[0] + 0.5), math.floor(place[1] + 0.5)]
        np.testing.assert_allclose(y[m, r, c], want, **TOLERANCE)


def test_the_whole_image_is_a_box(run_op: Run, rng: Any) -> None:
    x = rng.standard_normal((1, 4, 3, 2)).astype(np.float32)
    box = np.array([[0, 0, 1, 1]], np.float32)
    index = np.zeros(1, np.uint32)
    np.testing.assert_allclose(
        run_op("CropAndResize", x, box, index, resize_dims=(4, 3)), x, rtol=1e-6, atol=1e-6
    )  # a third times three, in float32
    flipped = run_op("CropAndResize", x, box[:, [2, 3, 0, 1]], index, resize_dims=(4, 3))
    np.testing.assert_allclose(flipped, x[:, ::-1, ::-1], rtol=1e-6, atol=1e-6)


def test_crop_of_no_boxes_and_of_no_such_image(run_op: Run) -> None:
    x = np.zeros((2, 4, 4, 1), np.float32)
    none = np.zeros((0, 4), np.float32)
    y = run_op("CropAndResize", x, none, np.zeros(0, np.int32), resize_dims=(2, 2))
    assert y.shape == (0, 2, 2, 1)
    box = np.zeros((1, 4), np.float32)
    with pytest.raises(OpError, match="names image 2, but"):
        run_op("CropAndResize", x, box, np.array([2], np.int32), resize_dims=(2, 2))


@pytest.mark.parametrize("mode", ImageMode)
def test_projection(run_op: Run, rng: Any, mode: ImageMode) -> None:
    x = rng.standard_normal((2, 5, 6, 2)).astype(np.float32)
    turns = np.array(
        [[0.8, 0.3, -0.6, -0.2, 1.1, 0.4, 0.02, -0.03], [1.5, 0, -2.2, 0.1, 0.7, 1, 0, 0.1]],
        np.float32,
    )
    y = run_op("ImageProjectionTransform", x, turns, interpolation_mode=mode)
    assert y.shape == x.shape
    for n, r, c in np.ndindex(2, 5, 6):
        a0, a1, a2, b0, b1, b2, c0, c1 = (float(v) for v in turns[n])
        k = c0 * c + c1 * r + 1
        place = [(b0 * c + b1 * r + b2) / k, (a0 * c + a1 * r + a2) / k]
        if mode is ImageMode.NEAREST_NEIGHBOR:
            place = [math.trunc(p + math.copysign(0.5, p)) for p in place]
        want = linear(x[n], place, GridPadding.ZEROS)
        np.testing.assert_allclose(y[n, r, c], want, **TOLERANCE)


@pytest.mark.parametrize("shape", [(8,), (1, 8)])
def test_one_projection_for_all_images(run_op: Run, rng: Any, shape: tuple[int, ...]) -> None:
    x = rng.standard_normal((2, 4, 5, 1)).astype(np.float32)
    shift = np.array([1, 0, 2, 0, 1, -1, 0, 0], np.float32).reshape(shape)
    y = run_op("ImageProjectionTransform", x, shift)
    np.testing.assert_array_equal(y[:, 1:, :3], x[:, :3, 2:])
    assert not y[:, 0].any()
    assert not y[:, :, 3:].any()


def test_a_place_at_infinity_is_zero(run_op: Run) -> None:
    # column 2: x / 0
    x = np.ones((1, 1, 4, 1), np.float32)
    turn = np.array([1, 0, 0, 0, 1, 0, -0.5, 0], np.float32)
    np.testing.assert_array_equal(run_op("ImageProjectionTransform", x, turn).ravel(), [1, 1, 0, 0])


def test_refusals(run_op: Run) -> None:
    x = np.zeros((2, 3, 3, 1), np.float32)
    with pytest.raises(OpError, match="2 coordinates in its last dimension"):
        run_op("GridSample", x, np.zeros((2, 4, 4, 3), np.float32))
    with pytest.raises(OpError, match="rank 4 or 5"):
        run_op("GridSample", x[0], np.zeros((2, 4, 2), np.float32))
    with pytest.raises(OpError, match="has no elements to sample"):
        run_op("GridSample", x[:, :0], np.zeros((2, 4, 4, 2), np.float32))
    boxes, index = np.zeros((2, 4), np.float32), np.zeros(1, np.int32)
    with pytest.raises(OpError, match=r"the boxes in\[1\] must have shape \(1, 4\)"):
        run_op("CropAndResize", x, boxes, index, resize_dims=(2, 2))
    with pytest.raises(OpError, match=r"must be \(8,\), \(1, 8\) or \(2, 8\)"):
        run_op("ImageProjectionTransform", x, np.zeros((3, 8), np.float32))


def test_samples_of_float16(run_op: Run) -> None:
    x = np.arange(4, dtype=np.float16).reshape(1, 2, 2, 1)
    y = run_op("GridSample", x, np.zeros((1, 1, 1, 2), np.float32))
    assert (y.dtype, y.item()) == (np.float16, 1.5)
    spec = (Spec(DType.FLOAT_16, (1, 1, 1, 1)),)
    assert run_op("GridSample", x, np.zeros((1, 1, 1, 2), np.float32), specs=spec) == 1.5
