"""Key points in heat maps."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import In, Op, Out
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_float, need_rank, need_shape

# Up to this determinant, relative to 1 and to its main product, a peak is not moved.
_FLAT = 1e-5
# Maximum distance of a peak from the largest element.
_REACH = 1.5


@PACKAGE.op("HeatMapMaxKeyPoint")
class HeatMapMaxKeyPoint(Op):
    """The peak of each heat map, to a fraction of an element, in its box.

    heatmaps: (n, h, w, points), h and w at least 2; boxes: (n, 4), rows x1, y1, x2, y2. The peak is
    that of the quadratic through the largest element (the first of equal ones, or of NaN ones) and
    its eight neighbors, mirrored at the border, at most 1.5 elements away; where the quadratic is
    flat, the peak is the element. Returns the value there, (n, points), and its position x, y, (n,
    points, 2), where element (i, j) is at ((j + 0.5) / w, (i + 0.5) / h) of the box; rounded where
    declared as integers.
    """

    inputs = (In("in[0]"), In("in[1]"))
    outputs = (Out("out[0]"), Out("out[1]"))
    source = "spec/qnn_ops.md, HeatMapMaxKeyPoint; NNAPI HEATMAP_MAX_KEYPOINT"

    def infer(
        self, heatmaps: Spec, boxes: Spec, out: Spec | None, points: Spec | None
    ) -> tuple[Spec, Spec]:
        need_float(heatmaps, "in[0]")
        need_rank(heatmaps, 4, "in[0]")
        n, height, width, count = heatmaps.shape
        if height < 2 or width < 2:
            raise OpError(f"the heat maps of in[0] {heatmaps.shape} must be at least 2 x 2")
        need_shape(boxes, (n, 4), "in[1]")
        return computed(heatmaps, (n, count), out), computed(boxes, (n, count, 2), points)

    def reference(
        self, heatmaps: Array, boxes: Array, out: Spec, points: Spec
    ) -> tuple[Array, Array]:
        n, height, width, count = heatmaps.shape
        best = heatmaps.reshape(n, height * width, count).argmax(axis=1)
        row, column = np.divmod(best, width)
        peak, value = _peak(_neighbors(heatmaps, row, column))
        share = (np.stack([column, row], axis=-1) + peak + 0.5) / np.array([width, height])
        low, high = boxes[:, None, :2], boxes[:, None, 2:]
        found = (low + share * (high - low)).astype(heatmaps.dtype)
        return value, np.rint(found) if points.dtype.is_int else found


def _neighbors(heatmaps: Array, row: Array, column: Array) -> Array:
    """Return the 3 x 3 elements around positions, (n, points, 3, 3), mirrored at the border."""
    n, height, width, count = heatmaps.shape
    steps = np.arange(-1, 2)
    rows = (height - 1) - np.abs((height - 1) - np.abs(row[..., None] + steps))
    columns = (width - 1) - np.abs((width - 1) - np.abs(column[..., None] + steps))
    which, point = np.arange(n)[:, None, None, None], np.arange(count)[:, None, None]
    grid: Array = heatmaps[which, rows[..., :, None], columns[..., None, :], point]
    return grid


def _peak(grid: Array) -> tuple[Array, Array]:
    """Return offset x, y and height of the quadratic's peak, from the center of (..., 3, 3)."""
    center = grid[..., 1, 1]
    slope_x = (grid[..., 1, 2] - grid[..., 1, 0]) / 2
    slope_y = (grid[..., 2, 1] - grid[..., 0, 1]) / 2
    bend_x = grid[..., 1, 0] - 2 * center + grid[..., 1, 2]
    bend_y = grid[..., 0, 1] - 2 * center + grid[..., 2, 1]
    twist = (grid[..., 2, 2] - grid[..., 2, 0] - grid[..., 0, 2] + grid[..., 0, 0]) / 4
    product = bend_x * bend_y
    determinant = product - twist * twist
    flat = np.abs(determinant) < _FLAT + _FLAT * product  # not where it is NaN
    divisor = np.where(flat, 1, determinant)
    x = np.where(flat, 0, (twist * slope_y - bend_y * slope_x) / divisor)
    y = np.where(flat, 0, (twist * slope_x - bend_x * slope_y) / divisor)
    scale = _REACH / np.maximum(np.maximum(np.abs(x), np.abs(y)), _REACH)
    x, y = x * scale, y * scale
    rise = slope_x * x + slope_y * y
    bent = (bend_x * x * x + bend_y * y * y) / 2 + twist * x * y
    return np.stack([x, y], axis=-1), center + rise + bent
