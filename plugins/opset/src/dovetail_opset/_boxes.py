"""Boxes: their overlaps, and how deltas move and stretch them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Shape, Spec

# Detectron's bound on how much a delta stretches a box: to at most 1000 / 16 of its extent.
STRETCH_LIMIT = float(np.log(1000 / 16))


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes laid out for the overlaps of one with many.

    Attributes:
        low, high: (2, n), the least and greatest coordinate on each axis.
        area: (n,).
    """

    low: Array
    high: Array
    area: Array

    @classmethod
    def of(cls, corners: Array) -> Boxes:
        """Create them from (n, 4), any two opposite corners a row, in either order of axes."""
        corners = as_float(corners)
        ends = corners.reshape(-1, 2, 2).transpose(1, 2, 0)
        low, high = np.minimum(ends[0], ends[1]), np.maximum(ends[0], ends[1])
        return cls(low, high, np.multiply(*(high - low)))

    def take(self, which: Array) -> Boxes:
        """Return some of them, by index or mask."""
        return Boxes(self.low[:, which], self.high[:, which], self.area[which])

    def overlap(self, i: int) -> Array:
        """Return the intersection of box i with each box over their union; 0 without any area."""
        least = np.maximum(self.low, self.low[:, i, None])
        most = np.minimum(self.high, self.high[:, i, None])
        shared = np.multiply(*np.maximum(most - least, 0))
        union = self.area + self.area[i] - shared
        share: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
        return share


def as_float(x: Array) -> Array:
    """Return numbers as floats: floats as they are, integers as float64."""
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def centered(corners: Array) -> tuple[Array, Array]:
    """Return centers and extents, (..., 2) each, of boxes (..., 4): low corner, high corner."""
    low, high = corners[..., :2], corners[..., 2:]
    return (low + high) / 2, high - low


def cornered(center: Array, size: Array) -> Array:
    """Return boxes (..., 4), low corner and high corner, for centers and extents (..., 2)."""
    half = size / 2
    return np.concatenate([center - half, center + half], axis=-1)


def moved_boxes(center: Array, size: Array, deltas: Array) -> tuple[Array, Array]:
    """Move centers by shares of the extents, and stretches extents by powers of e.

    Args:
        center: (..., 2).
        extent: (..., 2).
        deltas: (..., 4), shares on both axes, exponents on both axes.
    """
    return center + deltas[..., :2] * size, size * np.exp(deltas[..., 2:])


def clipped(corners: Array, sizes: Array) -> Array:
    """Cuts boxes (..., 4), rows x1, y1, x2, y2, at images' borders.

    Args:
        corners: The boxes.
        sizes: (..., 2), height and width of each box's image.
    """
    most = np.tile(sizes[..., ::-1], 2)
    return np.asarray(np.minimum(np.maximum(corners, 0), most))


def need_box_rows(x: Spec, what: str, columns: int = 4) -> int:
    """Return how many boxes there are in (n, columns).

    Raises:
        OpError: The shape is another.
    """
    if len(x.shape) != 2 or x.shape[1] != columns:
        raise OpError(f"{what} must be (n, {columns}), one box per row, but its shape is {x.shape}")
    return x.shape[0]


def need_boxes_of(boxes: Spec, scores: Spec, *allowed: Shape) -> None:
    """Refuses boxes that are not of a shape that goes with in[1], the scores.

    Raises:
        OpError: The shape is another.
    """
    if boxes.shape not in allowed:
        wanted = " or ".join(map(str, sorted(allowed)))
        raise OpError(
            f"in[0] must be {wanted} for in[1] {scores.shape}, but its shape is {boxes.shape}"
        )


def need_images(index: Array, count: int, what: str = "in[2]") -> Array:
    """Return the image that each box belongs to.

    Args:
        index: (n,) integers.
        count: How many images there are.
        what: The input, for the error.

    Raises:
        OpError: There is no such image; names the first.
    """
    wrong = np.flatnonzero((index < 0) | (index >= count))
    if wrong.size:
        raise OpError(
            f"{what} names image {index[wrong[0]]} for box {wrong[0]}, but the number of images is "
            f"{count}"
        )
    return index.astype(np.int64)
