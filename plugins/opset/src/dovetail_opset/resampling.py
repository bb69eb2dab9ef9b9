"""Resampling along one axis: positions of new elements among the old ones, and weights.

Resizing is separable, so a resize is one `Taps` per axis. The resize ops are defined by it, kernels
prepare it, and frontends compare it with their format's definition.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array

Floats = NDArray[np.float64]


class Coordinates(enum.IntEnum):
    """Position of a new element among the old ones."""

    HALF_PIXEL = 0
    PYTORCH_HALF_PIXEL = 1
    ALIGN_CORNERS = 2
    ASYMMETRIC = 3


class Nearest(enum.IntEnum):
    """Choice of the nearest element; the first two differ halfway between two."""

    ROUND_PREFER_FLOOR = 0
    ROUND_PREFER_CEIL = 1
    FLOOR = 2
    CEIL = 3


@dataclass(frozen=True, slots=True)
class Filter:
    """Weights of elements by their distance.

    Attributes:
        weigh: Returns weights for distances.
        radius: Distance from which on the weight is 0.
    """

    weigh: Callable[[Floats], Floats]
    radius: int


# Counting into a table of this many entries per weight is still faster than sorting them.
_DENSE = 8


@dataclass(frozen=True, slots=True)
class Taps:
    """Weighted old elements of each new element of a resampled axis.

    Attributes:
        indices: Old elements of each new one, (new, taps).
        weights: Their weights, (new, taps); None if each new element is one old one.
    """

    indices: NDArray[np.intp]
    weights: Floats | None = None

    def apply(self, x: Array, axis: int) -> Array:
        """Resample an axis; weighted integers become float64."""
        if self.weights is None:
            return np.take(x, self.indices[:, 0], axis)
        kind = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
        alone = (-1, *(1,) * (x.ndim - axis - 1))
        columns = zip(self.indices.T, self.weights.T.astype(kind), strict=True)
        shape = (*x.shape[:axis], len(self.indices), *x.shape[axis + 1 :])
        total = np.zeros(shape, kind)
        for index, weight in columns:
            total += np.take(x, index, axis) * weight.reshape(alone)
        return total

    def matrix(self, size: int) -> Floats:
        """Return the (new, size) matrix that resamples an axis of `size` elements."""
        found = np.zeros((len(self.indices), size))
        rows = np.arange(len(self.indices))[:, None]
        np.add.at(found, (rows, self.indices), 1.0 if self.weights is None else self.weights)
        return found

    def equals(self, other: Taps, size: int) -> bool:
        """Return whether both resample an axis of `size` elements alike, to six digits."""
        if len(self.indices) != len(other.indices):
            return False
        positions, weights = [], []
        for taps, sign in ((self, 1.0), (other, -1.0)):
            rows = np.arange(len(taps.indices))[:, None]
            ones = np.ones(taps.indices.shape)
            positions.append((rows * size + taps.indices).reshape(-1))
            weights.append((sign * (ones if taps.weights is None else taps.weights)).reshape(-1))
        which = np.concatenate(positions)
        if len(self.indices) * size > _DENSE * len(which):
            _, which = np.unique(which, return_inverse=True)
        left = np.bincount(which, np.concatenate(weights))
        return bool((np.abs(left) < 1e-6).all())

    def is_identity(self, size: int) -> bool:
        """Return whether an axis of `size` elements is unchanged."""
        return self.indices.shape == (size, 1) and bool(
            (self.indices[:, 0] == np.arange(size)).all()
            and (self.weights is None or (self.weights == 1).all())
        )


LINEAR = Filter(lambda distance: np.maximum(1 - np.abs(distance), 0), 1)


def cubic(coefficient: float) -> Filter:
    """Return the filter of cubic convolution with a coefficient, often -0.75 or -0.5.

    Source: Keys 1981.
    """

    def weigh(distance: Floats) -> Floats:
        a, d = coefficient, np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0))

    return Filter(weigh, 2)


def positions_of(mode: Coordinates, size: int, new: int) -> Floats:
    """Return the position of each of `new` elements among `size` old ones, (new,).

    All are quotients of integers, so that a position halfway is exact.
    """
    steps = np.arange(new, dtype=np.float64)
    if mode is Coordinates.ASYMMETRIC:
        return steps * size / new
    if mode is Coordinates.ALIGN_CORNERS:
        return steps * (size - 1) / max(new - 1, 1)
    if mode is Coordinates.PYTORCH_HALF_PIXEL and new == 1:
        return steps
    return ((2 * steps + 1) * size - new) / (2 * new)


def nearest_taps(positions: Floats, size: int, mode: Nearest) -> Taps:
    """Return the element nearest to each position."""
    match mode:
        case Nearest.ROUND_PREFER_FLOOR:
            found = np.ceil(positions - 0.5)
        case Nearest.ROUND_PREFER_CEIL:
            found = np.floor(positions + 0.5)
        case Nearest.FLOOR:
            found = np.floor(positions)
        case Nearest.CEIL:
            found = np.ceil(positions)
    return Taps(np.clip(found, 0, size - 1).astype(np.intp)[:, None])


def filter_taps(
    positions: Floats,
    size: int,
    kernel: Filter,
    *,
    stretch: float = 1.0,
    exclude_outside: bool = False,
) -> Taps:
    """Return the elements around each position, weighted by their distance.

    Args:
        positions: Positions of the new elements, (new,).
        size: Number of old elements.
        kernel: Their weights.
        stretch: Factor on the kernel's width, against aliasing where fewer elements remain.
        exclude_outside: Whether only elements that exist take part, their weights scaled to a sum
            of 1 (where none is near enough they stay 0); otherwise the outermost element replaces
            all beyond it.
    """
    if size == 1:  # all weight is on the one element
        return Taps(np.zeros((len(positions), 1), np.intp))
    reach = int(np.ceil(kernel.radius * stretch))
    first = np.floor(positions).astype(np.intp)
    found = first[:, None] + np.arange(1 - reach, reach + 1)
    weights = kernel.weigh((found - positions[:, None]) / stretch)
    if exclude_outside:
        weights[(found < 0) | (found >= size)] = 0
    if exclude_outside or stretch != 1:
        total = weights.sum(axis=1, keepdims=True)
        weights /= np.where(total == 0, 1, total)  # 0: nothing is near enough
    used = (weights != 0).any(axis=0)
    return Taps(np.clip(found, 0, size - 1)[:, used], weights[:, used])
