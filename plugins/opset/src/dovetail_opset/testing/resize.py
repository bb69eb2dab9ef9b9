"""Cases of resizing, and of sampling images between their elements."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real, widely

Position = Callable[[int, int, int], float]

_X = real(2, 4, 5, 3)
# The position of element i of m among n, in elements.
_ASYMMETRIC: Position = lambda i, n, m: i * n / m  # noqa: E731 - a table of formulas
_HALF_PIXEL: Position = lambda i, n, m: (i + 0.5) * n / m - 0.5  # noqa: E731
_CORNERS: Position = lambda i, n, m: i * (n - 1) / (m - 1) if m > 1 else 0.0  # noqa: E731
# Some backends compute positions in float32, others in float64.
_LOOSE = 1e-4


def _matrix(
    n: int, m: int, position: Position, weights: Callable[[float], dict[int, float]]
) -> Array:
    """Return the weight of each of n elements in each of m; the border is repeated."""
    made = np.zeros((m, n))
    for i in range(m):
        for index, weight in weights(position(i, n, m)).items():
            made[i, min(max(index, 0), n - 1)] += weight
    return made


def _linear(at: float) -> dict[int, float]:
    low = math.floor(at)
    return {low: 1 - (at - low), low + 1: at - low}


def _cubic(at: float, a: float = -0.75) -> dict[int, float]:
    """Return Keys' four weights."""
    low = math.floor(at)
    weights = {}
    for index in range(low - 1, low + 3):
        d = abs(at - index)
        near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * (d**3 - 5 * d**2 + 8 * d - 4)
        weights[index] = near if d <= 1 else far
    return weights


def _nearest(rounded: Callable[[float], int]) -> Callable[[float], dict[int, float]]:
    return lambda at: {rounded(at): 1.0}


def _resized(
    position: Position, weights: Callable[[float], dict[int, float]], h: int, w: int
) -> Callable[[Array], Array]:
    def expected(x: Array) -> Array:
        rows = _matrix(x.shape[1], h, position, weights)
        columns = _matrix(x.shape[2], w, position, weights)
        return np.asarray(np.einsum("ih,jw,nhwc->nijc", rows, columns, x.astype(np.float64)))

    return expected


def _inside(x: Array) -> Array:
    """Return cubic interpolation with a = -0.5 to 7 by 3, without elements outside."""
    axes = []
    for n, m in zip(x.shape[1:3], (7, 3), strict=True):
        rows = np.zeros((m, n))
        for i in range(m):
            for index, weight in _cubic(_HALF_PIXEL(i, n, m), a=-0.5).items():
                if 0 <= index < n:
                    rows[i, index] = weight
        axes.append(rows / rows.sum(1, keepdims=True))
    return np.asarray(np.einsum("ih,jw,nhwc->nijc", *axes, x.astype(np.float64)))


def _smoothed(x: Array) -> Array:
    """Return a resize to 7 by 3 whose columns shrink by a triangle filter; rows grow."""
    rows, columns = _matrix(4, 7, _HALF_PIXEL, _linear), np.zeros((3, 5))
    for i, j in np.ndindex(3, 5):
        columns[i, j] = max(0.0, 1 - abs(j - _HALF_PIXEL(i, 5, 3)) / (5 / 3))
    columns /= columns.sum(1, keepdims=True)
    return np.asarray(np.einsum("ih,jw,nhwc->nijc", rows, columns, x.astype(np.float64)))


def _half_down(at: float) -> int:
    return math.ceil(at - 0.5)


_DOWN = _nearest(math.floor)
_MODES: dict[str, tuple[str, Callable[[Array], Array], dict[str, float]]] = {
    "bilinear": ("ResizeBilinear", _resized(_ASYMMETRIC, _linear, 7, 3), {}),
    "bilinear half pixel": (
        "ResizeBilinear",
        _resized(_HALF_PIXEL, _linear, 7, 3),
        {"half_pixel_centers": True},
    ),
    "bilinear corners": (
        "ResizeBilinear",
        _resized(_CORNERS, _linear, 7, 3),
        {"align_corners": True},
    ),
    "bilinear antialias": (
        "ResizeBilinear",
        _smoothed,
        {"half_pixel_centers": True, "antialias": True},
    ),
    "nearest": ("ResizeNearestNeighbor", _resized(_ASYMMETRIC, _DOWN, 7, 3), {}),
    "nearest half pixel": (
        "ResizeNearestNeighbor",
        _resized(lambda i, n, m: (i + 0.5) * n / m, _DOWN, 7, 3),
        {"half_pixel_centers": True},
    ),
    "nearest corners": (
        "ResizeNearestNeighbor",
        _resized(lambda i, n, m: _CORNERS(i, n, m) + 0.5, _DOWN, 7, 3),
        {"align_corners": True},
    ),
    "resize nearest": ("Resize", _resized(_HALF_PIXEL, _nearest(_half_down), 7, 3), {}),
    "resize nearest, halves up": (
        "Resize",
        _resized(_HALF_PIXEL, _nearest(lambda at: math.floor(at + 0.5)), 7, 3),
        {"nearest_mode": 1},
    ),
    "resize nearest, up": (
        "Resize",
        _resized(_HALF_PIXEL, _nearest(math.ceil), 7, 3),
        {"nearest_mode": 3},
    ),
    "resize nearest floor": (
        "Resize",
        _resized(_ASYMMETRIC, _DOWN, 7, 3),
        {"transformation_mode": 3, "nearest_mode": 2},
    ),
    "resize linear": (
        "Resize",
        _resized(_HALF_PIXEL, _linear, 7, 3),
        {"interpolation_mode": 1},
    ),
    "resize linear corners": (
        "Resize",
        _resized(_CORNERS, _linear, 7, 3),
        {"interpolation_mode": 1, "transformation_mode": 2},
    ),
    "resize cubic inside": (
        "Resize",
        _inside,
        {"interpolation_mode": 2, "exclude_outside": True, "cubic_coeff": -0.5},
    ),
    "resize cubic": ("Resize", _resized(_HALF_PIXEL, _cubic, 7, 3), {"interpolation_mode": 2}),
}


def _bilinear(image: Array, y: float, x: float) -> Array:
    """Return interpolation between four elements of (h, w, c); zero beyond the border."""
    made = np.zeros(image.shape[-1])
    for i, up in _linear(y).items():
        for j, across in _linear(x).items():
            if 0 <= i < image.shape[0] and 0 <= j < image.shape[1]:
                made += up * across * image[i, j]
    return made


def _sampled(x: Array, grid: Array) -> Array:
    """Return samples where -1 and 1 are the outer edges of the first and last element."""
    h, w = x.shape[1:3]
    made = np.zeros((*grid.shape[:-1], x.shape[-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        across, down = (float(v) for v in grid[at])
        made[at] = _bilinear(x[at[0]], ((down + 1) * h - 1) / 2, ((across + 1) * w - 1) / 2)
    return made


def _mirrored(at: float, count: int) -> float:
    """Return a position mirrored at the outer edges, -0.5 and count - 0.5, until inside."""
    while not -0.5 <= at <= count - 0.5:
        at = -1 - at if at < -0.5 else 2 * count - 1 - at
    return min(max(at, 0.0), count - 1.0)


def _reflected(x: Array, grid: Array) -> Array:
    h, w = x.shape[1:3]
    made = np.zeros((*grid.shape[:-1], x.shape[-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        across, down = (float(v) for v in grid[at])
        row, column = ((down + 1) * h - 1) / 2, ((across + 1) * w - 1) / 2
        made[at] = _bilinear(x[at[0]], _mirrored(row, h), _mirrored(column, w))
    return made


def _in_depth(x: Array, grid: Array) -> Array:
    """Return samples of (n, d, h, w, c) at (x, y, z), interpolated between two slices."""
    made = np.zeros((*grid.shape[:-1], x.shape[-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        position = [
            ((float(v) + 1) * n - 1) / 2 for v, n in zip(grid[at], x.shape[3:0:-1], strict=True)
        ]
        for k, share in _linear(position[2]).items():
            if 0 <= k < x.shape[1]:
                made[at] += share * _bilinear(x[at[0], k], position[1], position[0])
    return made


def _nearest_of_grid(x: Array, grid: Array) -> Array:
    """Return nearest elements where -1 and 1 are the centers of the first and last one.

    Beyond them the border is repeated.
    """
    h, w = x.shape[1:3]
    made = np.zeros((*grid.shape[:-1], x.shape[-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        across, down = (float(v) for v in grid[at])
        row, column = round((down + 1) / 2 * (h - 1)), round((across + 1) / 2 * (w - 1))
        made[at] = x[at[0], min(max(row, 0), h - 1), min(max(column, 0), w - 1)]
    return made


def _cropped(x: Array, boxes: Array, index: Array) -> Array:
    """Return boxes resized to 3 by 2, -1 beyond the image."""
    h, w = x.shape[1:3]
    made = np.zeros((len(boxes), 3, 2, x.shape[-1]))
    for b, (y1, x1, y2, x2) in enumerate(boxes.astype(np.float64)):
        for i, j in np.ndindex(3, 2):
            y, z = (y1 + (y2 - y1) * i / 2) * (h - 1), (x1 + (x2 - x1) * j) * (w - 1)
            inside = 0 <= y <= h - 1 and 0 <= z <= w - 1
            made[b, i, j] = _bilinear(x[index[b]], y, z) if inside else -1
    return made


def _projected(x: Array, transform: Array) -> Array:
    made = np.zeros(x.shape)
    for n, i, j in np.ndindex(*x.shape[:3]):
        a0, a1, a2, b0, b1, b2, c0, c1 = transform[n].astype(np.float64)
        k = c0 * j + c1 * i + 1
        made[n, i, j] = _bilinear(x[n], (b0 * j + b1 * i + b2) / k, (a0 * j + a1 * i + a2) / k)
    return made


_TURN = np.array([[0.9, 0.1, 0.3, -0.2, 1.1, 0.2, 0.01, -0.02], [1, 0, 1, 0, 1, 1, 0, 0]])

CASES: tuple[OpCase, ...] = (
    *(
        OpCase(
            op,
            (_X,),
            expected,
            params,
            name=name,
            outputs=(Spec(DType.FLOAT_32, (2, 7, 3, 3)),),
            atol=_LOOSE,
        )
        for name, (op, expected, params) in _MODES.items()
    ),
    OpCase(
        "Resize",
        (_X,),
        # to one row, which is the first one; columns as ever
        lambda x: _resized(_HALF_PIXEL, _linear, 7, 3)(x[:, :1])[:, :1],
        {"interpolation_mode": 1, "transformation_mode": 1},
        name="as PyTorch, to one row",
        outputs=(Spec(DType.FLOAT_32, (2, 1, 3, 3)),),
        atol=_LOOSE,
    ),
    *widely(
        OpCase(
            "ResizeBilinear",
            (_X,),
            _resized(_ASYMMETRIC, _linear, 8, 10),
            name="twice",
            atol=_LOOSE,
        ),
        DType.UFIXED_POINT_8,
    ),
    OpCase("GridSample", (_X, real(2, 3, 4, 2, low=-1.2, high=1.2)), _sampled, atol=_LOOSE),
    OpCase(
        "GridSample",
        (_X, real(2, 3, 4, 2, low=-1.2, high=1.2, seed=4)),
        _nearest_of_grid,
        {"mode": 1, "padding_mode": 1, "align_corners": True},
        name="nearest, border, corners",
    ),
    OpCase(
        "GridSample",
        (_X, real(2, 3, 4, 2, low=-2.7, high=2.7, seed=5)),
        _reflected,
        {"padding_mode": 2},
        name="reflection",
        atol=_LOOSE,
    ),
    OpCase(
        "GridSample",
        (real(1, 3, 4, 5, 2), real(1, 2, 3, 2, 3, low=-1.1, high=1.1)),
        _in_depth,
        name="three dimensions",
        atol=_LOOSE,
    ),
    OpCase(
        "CropAndResize",
        (
            _X,
            np.array([[0, 0, 1, 1], [0.2, 0.6, 0.9, 0.1], [0.5, 0.5, 1.4, 2]], np.float32),
            np.array([1, 0, 1], np.int32),
        ),
        _cropped,
        {"resize_dims": (3, 2), "extrapolation_value": -1.0},
        atol=_LOOSE,
    ),
    OpCase(
        "CropAndResize",
        (_X, np.array([[0.1, 0.9, 0.8, 0.3]], np.float32), np.array([1], np.int32)),
        # rows 0.3, 1.35, 2.4 and columns 3.6, 1.2
        lambda x, b, i: np.stack([[[x[1, r, c] for c in (4, 1)] for r in (0, 1, 2)]]),
        {"resize_dims": (3, 2), "interpolation_mode": 1},
        name="nearest",
    ),
    OpCase("ImageProjectionTransform", (_X, _TURN.astype(np.float32)), _projected, atol=_LOOSE),
    OpCase(
        "ImageProjectionTransform",
        (_X, np.array([[1, 0, 1, 0, 1, 0, 0, 0]], np.float32)),
        lambda x, _: np.concatenate([x[:, :, 1:], 0 * x[:, :, :1]], 2),
        {"interpolation_mode": 1},
        name="one element across, nearest",
    ),
)
