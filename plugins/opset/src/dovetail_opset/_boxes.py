"""Boxes: their overlaps, and movement and stretching by deltas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Shape, Spec

# Detectron's bound on how much a delta stretches a box: to at most 1000 / 16 of its size.
STRETCH_LIMIT = float(np.log(1000 / 16))


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes in the layout for overlaps of one with many.

    Attributes:
        low, high: (2, ..., n), the minimum and maximum coordinate on each axis.
        area: (..., n).
    """

    low: Array
    high: Array
    area: Array

    @classmethod
    def of(cls, corners: Array) -> Boxes:
        """Create boxes from (n, 4), any two opposite corners a row, in either order of axes."""
        corners = as_float(corners)
        # with boxes as the last axis in memory too, a function of many has long rows
        ends = np.ascontiguousarray(corners.reshape(-1, 2, 2).transpose(1, 2, 0))
        low, high = np.minimum(ends[0], ends[1]), np.maximum(ends[0], ends[1])
        return cls(low, high, np.multiply(*(high - low)))

    def take(self, which: Array) -> Boxes:
        """Return some of the boxes, by index."""
        # `low[:, which]` would have a box's two numbers side by side in memory
        return Boxes(self.low.take(which, 1), self.high.take(which, 1), self.area[which])

    def overlap(self, i: int) -> Array:
        """Return the intersection of box i with each box over their union; 0 without area."""
        found: Array = self.overlaps(self.take(np.array([i])))[0]
        return found

    def overlaps(self, others: Boxes) -> Array:
        """Return such overlaps of m other boxes with each box, (..., m, n)."""
        least = np.maximum(self.low[..., None, :], others.low[..., None])
        most = np.minimum(self.high[..., None, :], others.high[..., None])
        sides = np.subtract(most, least, out=most)
        shared = np.multiply(*np.maximum(sides, 0, out=sides))
        union = self.area[..., None, :] + others.area[..., None] - shared
        share: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
        return share


def as_float(x: Array) -> Array:
    """Return numbers as floats: floats as they are, integers as float64."""
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def centered(corners: Array) -> tuple[Array, Array]:
    """Return centers and sizes, (..., 2) each, of boxes (..., 4): low corner, high corner."""
    low, high = corners[..., :2], corners[..., 2:]
    return (low + high) / 2, high - low


def cornered(center: Array, size: Array) -> Array:
    """Return boxes (..., 4), low corner and high corner, for centers and sizes (..., 2)."""
    half = size / 2
    return np.concatenate([center - half, center + half], axis=-1)


def moved_boxes(center: Array, size: Array, deltas: Array) -> tuple[Array, Array]:
    """Move centers by fractions of the sizes, and stretch sizes by powers of e.

    Args:
        center: (..., 2).
        size: (..., 2).
        deltas: (..., 4), fractions on both axes, exponents on both axes.
    """
    return center + deltas[..., :2] * size, size * np.exp(deltas[..., 2:])


def clipped(corners: Array, sizes: Array) -> Array:
    """Clip boxes (..., 4), rows x1, y1, x2, y2, to their images.

    Args:
        corners: The boxes.
        sizes: (..., 2), height and width of each box's image.
    """
    most = np.tile(sizes[..., ::-1], 2)
    return np.asarray(np.minimum(np.maximum(corners, 0), most))


def need_box_rows(x: Spec, what: str, columns: int = 4) -> int:
    """Return the number of boxes in (n, columns).

    Raises:
        OpError: The shape differs.
    """
    if len(x.shape) != 2 or x.shape[1] != columns:
        raise OpError(f"{what} must be (n, {columns}), one box per row, but its shape is {x.shape}")
    return x.shape[0]


def need_boxes_of(boxes: Spec, scores: Spec, *allowed: Shape) -> None:
    """Raise if the shape of boxes does not match in[1], the scores.

    Raises:
        OpError: The shape differs.
    """
    if boxes.shape not in allowed:
        wanted = " or ".join(map(str, sorted(allowed)))
        raise OpError(
            f"in[0] must be {wanted} for in[1] {scores.shape}, but its shape is {boxes.shape}"
        )


def need_images(index: Array, count: int, what: str = "in[2]") -> Array:
    """Return the image of each box.

    Args:
        index: (n,) integers.
        count: Number of images.
        what: The input, for the error.

    Raises:
        OpError: An image does not exist; names the first.
    """
    wrong = np.flatnonzero((index < 0) | (index >= count))
    if wrong.size:
        raise OpError(
            f"{what} names image {index[wrong[0]]} for box {wrong[0]}, but the number of images is "
            f"{count}"
        )
    return index.astype(np.int64)
