"""GridSample's cubic interpolation, which the op lacks: 4 x 4 elements, gathered and summed.

Source: Keys 1981, Cubic convolution interpolation for digital image processing, eq. 4, a = -0.75.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, clip, floor, where, whole

_A = -0.75
# Elements around a position, counted from the one before it, and for each the polynomial that
# computes its weight from its distance to the position, highest power first.
_TAPS = np.arange(-1, 3)
_OUTER, _INNER = (_A, -5 * _A, 8 * _A, -4 * _A), (_A + 2, -(_A + 3), 0.0, 1.0)
_WEIGHTS = np.array((_OUTER, _INNER, _INNER, _OUTER))


@dataclass(frozen=True, slots=True)
class _Line:
    """The four elements along one axis, (n, h, w, 4): their INT_32 indices and their weights."""

    places: Expr
    weights: Expr


def cubic_samples(op: OpContext, x: Tensor, grid: Tensor, *, corners: bool, padding: str) -> Tensor:
    """Return the samples (n, h_out, w_out, c).

    Args:
        op: The GridSample.
        x: The images, (n, h, w, c).
        grid: Positions (x, y) from -1 to 1, (n, h_out, w_out, 2).
        corners: Whether -1 and 1 are the middles of the outermost elements, not their edges.
        padding: The values outside: zeros, border or reflection. As in PyTorch, where the operator
            comes from, and in ONNX Runtime, positions beyond the border stay there, and elements
            around them are those of the border; ONNX's own evaluator moves the positions.
    """
    n, height, width, channels = x.shape
    columns, rows = (
        _line(_coordinate(Expr(op, grid), axis), extent, corners=corners, padding=padding)
        for axis, extent in ((0, width), (1, height))
    )
    shape = grid.shape[:3]
    images = np.arange(n).reshape(n, 1, 1, 1) * (height * width)
    starts = rows.places * width + images
    places = starts.reshaped((*shape, 4, 1)) + columns.places.reshaped((*shape, 1, 4))
    pixels = Expr(op, x).reshaped((n * height * width, channels))
    taps = pixels.step("Gather", places.reshaped((*shape, 16)), axis=0)
    weights = rows.weights.reshaped((*shape, 4, 1)) * columns.weights.reshaped((*shape, 1, 4))
    sums = weights.reshaped((*shape, 1, 16)).cast(x.dtype) @ taps
    return sums.reshaped((*shape, channels)).tensor


def _coordinate(grid: Expr, axis: int) -> Expr:
    ranges = [*((0, extent, 1) for extent in grid.shape[:-1]), (axis, axis + 1, 1)]
    return grid.step("StridedSlice", ranges=ranges)


def _line(given: Expr, extent: int, *, corners: bool, padding: str) -> _Line:
    """Return the elements along an axis for coordinates (n, h, w, 1) from -1 to 1."""
    place = given * ((extent - 1 if corners else extent) / 2) + (extent - 1) / 2
    before = floor(place)
    weights = _weights(abs(place - before - _TAPS))
    places = before + _TAPS
    if padding == "reflection":
        places = _reflected(places, extent, corners=corners)
    inside = clip(places, 0.0, extent - 1.0)
    if padding == "zeros":
        # not by equality with `inside`: in a quantized model, the two have other grids
        is_inside = (places > -0.5) & (places < extent - 0.5)
        weights = where(is_inside, weights, 0)
    return _Line(whole(inside), weights)


def _weights(distances: Expr) -> Expr:
    """Return the weights of elements (..., 4) at these distances, by Horner's rule."""
    weights = distances * _WEIGHTS[:, 0]
    for column in (1, 2):
        weights = (weights + _WEIGHTS[:, column]) * distances
    return weights + _WEIGHTS[:, 3]


def _reflected(places: Expr, extent: int, *, corners: bool) -> Expr:
    """Return integer positions reflected at the centers or edges of the border."""
    least, span = (0.0, extent - 1) if corners else (-0.5, extent)
    if span == 0:  # a single element: every position reads it
        return places * 0
    moved = places - least
    ahead = moved - floor(moved * (0.5 / span)) * (2 * span)
    return span + least - abs(ahead - span)
