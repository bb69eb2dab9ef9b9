"""Checks and conversion of indices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Shape, Spec

INDEX_TYPES = (DType.INT_32, DType.UINT_32)
Indices = NDArray[np.int64]


def need_integers(indices: Spec, what: str = "in[1]") -> None:
    """Raise if indices are not integers.

    Raises:
        OpError: They are not.
    """
    if not indices.dtype.is_int:
        raise OpError(f"indices must be integers, but {what} is {indices.dtype.name}")


def counted_from_start(indices: Array, length: int, axis: int) -> Indices:
    """Return indices counted from the start; negative ones count from the end.

    Args:
        indices: Integers of any shape and type.
        length: Number of elements.
        axis: Their axis, for the error.

    Raises:
        OpError: An index is out of range; names the first.
    """
    # before any change of type: a UINT_64 index need not fit INT_64
    wrong = indices[(indices < -length) | (indices >= length)]
    if wrong.size:
        raise OpError(f"index {wrong[0]} is out of range on axis {axis}, which has size {length}")
    wanted = indices.astype(np.int64)
    return np.where(wanted < 0, wanted + length, wanted)


def linear(indices: Array, shape: Shape, axis: int = 0) -> Indices:
    """Return indices into flattened dimensions for rows of indices.

    Args:
        indices: (..., k), one row for each result; negative ones count from the end.
        shape: The k sizes.
        axis: The first of these axes, for the error.

    Raises:
        OpError: An index is out of range; names the first of its column.
    """
    found = np.zeros(indices.shape[:-1], np.int64)
    for i, size in enumerate(shape):
        found = found * size + counted_from_start(indices[..., i], size, axis + i)
    return found


def along(indices: Array, axis: int, size: int) -> tuple[Indices, ...]:
    """Return the NumPy index of each index along an axis, at its own position on other axes.

    Args:
        indices: Any shape; negative ones count from the end.
        axis: The axis that they index.
        size: Size of the indexed tensor on this axis.

    Raises:
        OpError: An index is out of range; names the first.
    """
    positions: list[Indices] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    positions[axis] = counted_from_start(indices, size, axis)
    return tuple(positions)


def need_within(indices: Spec, data: Spec, axis: int) -> None:
    """Raise if the shape of indices exceeds that of `data` on an axis other than `axis`.

    Raises:
        OpError: The rank differs or a size is too large.
    """
    same_rank = len(indices.shape) == len(data.shape)
    pairs = zip(indices.shape, data.shape, strict=False)
    if not same_rank or any(n > most for i, (n, most) in enumerate(pairs) if i != axis):
        raise OpError(
            f"in[1] {indices.shape} must have the rank of in[0] {data.shape} and exceed it on axis "
            f"{axis} only"
        )
