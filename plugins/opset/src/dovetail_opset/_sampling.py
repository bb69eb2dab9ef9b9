"""Elements of images at positions between them, for any number of spatial axes.

Images are (n, *spatial, c). Positions are one array for each spatial axis, all of one shape (m,
...), with a batch index that broadcasts to it; results are (m, ..., c).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, Shape


def nearest(x: Array, batch: Array, positions: Sequence[Array], *, zeros: bool) -> Array:
    """Return the elements at rounded positions.

    Args:
        x: Images with elements, (n, *spatial, c).
        batch: The image of each position.
        positions: Integers; NaN is outside.
        zeros: Whether zeros surround the images; else their outermost elements are repeated.
    """
    images = _framed(x, len(positions)) if zeros else x
    index = batch * math.prod(images.shape[1:-1])
    for axis, position in enumerate(positions):
        near = _clamped(position, x.shape[1 + axis], zeros=zeros)
        index = index + _offset(near, axis, images.shape, zeros=zeros)
    return np.take(images.reshape(-1, images.shape[-1]), index, axis=0)


def interpolated(x: Array, batch: Array, positions: Sequence[Array], *, zeros: bool) -> Array:
    """Return linearly interpolated values at positions; integers as floats.

    Args:
        x: Images with elements, (n, *spatial, c).
        batch: The image of each position.
        positions: Any numbers; NaN is outside.
        zeros: Whether zeros surround the images; else their outermost elements are repeated.
    """
    images = _framed(x, len(positions)) if zeros else x
    kind = np.result_type(x.dtype if x.dtype.kind == "f" else np.float64, positions[0].dtype)
    flat = images.reshape(-1, images.shape[-1]).astype(kind, copy=False)
    sides = []
    for axis, position in enumerate(positions):
        near = _clamped(position, x.shape[1 + axis], zeros=zeros)
        low = np.floor(near)
        rest = (near - low).astype(kind)
        ends = [_offset(low + step, axis, images.shape, zeros=zeros) for step in (0, 1)]
        sides.append(list(zip(ends, (1 - rest, rest), strict=True)))
    total = np.zeros((*positions[0].shape, x.shape[-1]), kind)
    for corner in itertools.product(*sides):
        index = sum((offset for offset, _ in corner), batch * math.prod(images.shape[1:-1]))
        weight = math.prod((part for _, part in corner), start=np.ones((), kind))
        found = np.take(flat, index, axis=0)
        found *= weight[..., None]
        total += found
    return total.astype(x.dtype, copy=False) if x.dtype.kind == "f" else total


def reflected(positions: Array, size: int, *, edges: bool) -> Array:
    """Return positions mirrored into an axis, as often as needed.

    Args:
        positions: Positions along the axis.
        size: Number of its elements.
        edges: Whether the mirrors are the outer edges of the first and last element; else their
            centers.
    """
    low = -0.5 if edges else 0.0
    span = size - 1 - 2 * low
    if span == 0:
        return np.zeros_like(positions)
    away = np.abs(positions - low) % (2 * span)
    return np.clip(span - np.abs(away - span) + low, 0, size - 1)


def _clamped(positions: Array, size: int, *, zeros: bool) -> Array:
    """Return positions clamped to just outside an axis; NaN becomes the first position there.

    Args:
        positions: Positions along the axis.
        size: Number of its elements.
        zeros: Whether zeros are outside, or else the outermost elements.
    """
    least, most = (-2, size + 1) if zeros else (0, size - 1)
    # unlike clip, these two prefer a number to nan
    return np.asarray(np.fmin(np.fmax(positions, least), most))


def _framed(x: Array, axes: int) -> Array:
    """Return images with a border of one zero, which all positions outside read."""
    return np.pad(x, ((0, 0), *((1, 1),) * axes, (0, 0)))


def _offset(position: Array, axis: int, shape: Shape, *, zeros: bool) -> Array:
    """Return the offsets of integer positions on a spatial axis from an image's first element.

    Args:
        position: Positions on the images without a border.
        axis: Index of the spatial axis.
        shape: Shape of the images, with the border if `zeros`.
        zeros: Whether the images have a border.
    """
    index = np.clip(position + 1 if zeros else position, 0, shape[1 + axis] - 1).astype(np.intp)
    return np.asarray(index * math.prod(shape[2 + axis : -1]))
