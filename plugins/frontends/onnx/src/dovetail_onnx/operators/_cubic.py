"""GridSample's cubic interpolation, which the op lacks: 4 x 4 elements, gathered and summed.

Source: Keys 1981, Cubic convolution interpolation for digital image processing, eq. 4, a = -0.75.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dovetail.ir import DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._layout import reshaped

_A = -0.75
# Elements around a position, counted from the one before it, and for each the polynomial that
# computes its weight from its distance to the position, highest power first.
_TAPS = np.arange(-1, 3)
_OUTER, _INNER = (_A, -5 * _A, 8 * _A, -4 * _A), (_A + 2, -(_A + 3), 0.0, 1.0)
_WEIGHTS = np.array((_OUTER, _INNER, _INNER, _OUTER))


@dataclass(frozen=True, slots=True)
class _Line:
    """The four elements along one axis, (n, h, w, 4): their INT_32 indices and their weights."""

    places: Tensor
    weights: Tensor


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
        _line(op, _coordinate(op, grid, axis), extent, corners=corners, padding=padding)
        for axis, extent in ((0, width), (1, height))
    )
    shape = grid.shape[:3]
    starts = _times(op, "row_starts", rows.places, [width])
    images = np.arange(n).reshape(n, 1, 1, 1) * (height * width)
    starts = _plus(op, "image_starts", starts, images)
    starts = reshaped(op, "by_row", starts, (*shape, 4, 1))
    along = reshaped(op, "by_column", columns.places, (*shape, 1, 4))
    places = op.step("places", "ElementWiseAdd", [starts, along])
    pixels = reshaped(op, "pixels", x, (n * height * width, channels))
    flat = reshaped(op, "all_places", places, (*shape, 16))
    taps = op.step("taps", "Gather", [pixels, flat], axis=0)
    down = reshaped(op, "row_weights", rows.weights, (*shape, 4, 1))
    across = reshaped(op, "column_weights", columns.weights, (*shape, 1, 4))
    weights = op.step("weights", "ElementWiseMultiply", [down, across])
    weights = reshaped(op, "all_weights", weights, (*shape, 1, 16))
    if weights.dtype is not x.dtype:
        weights = op.step("cast", "Cast", [weights], spec=Spec(x.dtype, weights.shape))
    sums = op.step("sums", "MatMul", [weights, taps])
    return reshaped(op, "samples", sums, (*shape, channels))


def _coordinate(op: OpContext, grid: Tensor, axis: int) -> Tensor:
    ranges = [*((0, extent, 1) for extent in grid.shape[:-1]), (axis, axis + 1, 1)]
    return op.step("coordinate", "StridedSlice", [grid], ranges=ranges)


def _line(op: OpContext, given: Tensor, extent: int, *, corners: bool, padding: str) -> _Line:
    """Return the elements along an axis for coordinates (n, h, w, 1) from -1 to 1."""
    scaled = _times(op, "scaled", given, [(extent - 1 if corners else extent) / 2])
    place = _plus(op, "place", scaled, [(extent - 1) / 2])
    before = op.step("before", "ElementWiseFloor", [place])
    rest = op.step("rest", "ElementWiseSubtract", [place, before])
    distances = op.step("distances", "ElementWiseAbs", [_plus(op, "ways", rest, -_TAPS)])
    weights = _weights(op, distances)
    places = _plus(op, "elements", before, _TAPS)
    if padding == "reflection":
        places = _reflected(op, places, extent, corners=corners)
    inside = op.step("inside", "ReluMinMax", [places], min_value=0.0, max_value=extent - 1.0)
    if padding == "zeros":
        is_inside = op.step("is_inside", "ElementWiseEqual", [inside, places])
        nothing = op.static("nothing", np.zeros(1), weights.dtype)
        weights = op.step("kept", "ElementWiseSelect", [is_inside, weights, nothing])
    whole = op.step("whole", "Cast", [inside], spec=Spec(DType.INT_32, inside.shape))
    return _Line(whole, weights)


def _weights(op: OpContext, distances: Tensor) -> Tensor:
    """Return the weights of elements (..., 4) at these distances, by Horner's rule."""
    weights = _times(op, "cubes", distances, _WEIGHTS[:, 0])
    for column in (1, 2):
        weights = _plus(op, "sum", weights, _WEIGHTS[:, column])
        weights = op.step("product", "ElementWiseMultiply", [weights, distances])
    return _plus(op, "weight", weights, _WEIGHTS[:, 3])


def _reflected(op: OpContext, places: Tensor, extent: int, *, corners: bool) -> Tensor:
    """Return integer positions reflected at the centers or edges of the border."""
    least, span = (0.0, extent - 1) if corners else (-0.5, extent)
    if span == 0:  # a single element: every position reads it
        return _times(op, "only", places, [0.0])
    moved = _plus(op, "moved", places, [-least])
    turns = _times(op, "turns", moved, [0.5 / span])
    whole = _times(op, "whole_turns", op.step("turn", "ElementWiseFloor", [turns]), [-2.0 * span])
    ahead = op.step("ahead", "ElementWiseAdd", [moved, whole])
    distance = op.step("from_turn", "ElementWiseAbs", [_plus(op, "to_turn", ahead, [-span])])
    return _plus(op, "mirrored", _times(op, "back", distance, [-1.0]), [span + least])


def _plus(op: OpContext, suffix: str, x: Tensor, known: ArrayLike) -> Tensor:
    return op.step(suffix, "ElementWiseAdd", [x, op.static(suffix, np.asarray(known), x.dtype)])


def _times(op: OpContext, suffix: str, x: Tensor, known: ArrayLike) -> Tensor:
    return op.step(
        suffix, "ElementWiseMultiply", [x, op.static(suffix, np.asarray(known), x.dtype)]
    )
