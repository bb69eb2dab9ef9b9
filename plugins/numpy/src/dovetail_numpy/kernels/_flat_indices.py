"""Indices as offsets into flat data, checked in every run: NumPy would let some wrap around."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import BackendError
from dovetail.ir import Array, Shape
from dovetail.runtime.plan import Buffers, KernelCall, Value
from dovetail_numpy.kernels._calls import Call

Positions = NDArray[np.intp]
_ITEM = np.dtype(np.intp).itemsize


@dataclass(frozen=True, slots=True)
class Rows:
    """The conversion of rows of indices into offsets.

    Attributes:
        axis: Axis of the data that the first index of a row belongs to.
        sizes: Size of the axis, for each index of a row.
        strides: Distance of neighbors on the axis, for each index of a row.
        base: Added to every offset; broadcasts to the rows.
    """

    axis: int
    sizes: Shape
    strides: Shape
    base: Positions

    @classmethod
    def along(cls, data: Shape, axis: int, indices: Shape) -> Rows:
        """Return rows of one index along an axis; on the others its own position counts."""
        base = np.zeros((1,) * len(indices), np.intp)
        for other, size in enumerate(indices):
            if other != axis:
                shape = [size if i == other else 1 for i in range(len(indices))]
                stride = math.prod(data[other + 1 :])
                base = base + (np.arange(size) * stride).reshape(shape)
        return cls(axis, (data[axis],), (math.prod(data[axis + 1 :]),), base)

    @classmethod
    def into(cls, data: Shape, depth: int, batch: int, indices: Shape) -> Rows:
        """Return rows into the `depth` axes after the batch; offsets count whole slices."""
        inner = data[batch : batch + depth]
        strides = tuple(math.prod(inner[i + 1 :]) for i in range(depth))
        count, rows = math.prod(data[:batch]), len(indices) - 1 - batch
        base = np.arange(count) * math.prod(inner)
        return cls(batch, inner, strides, base.reshape(data[:batch] + (1,) * rows))


class FlatIndices:
    """The offsets of a call's indices, computed once if these are constant, else in every run.

    Args:
        call: Its indices are declared as read here, and scratchpads.
        index: The input with the indices: rows on the last axis.
        rows: Their conversion.
        single: Whether rows have one index and the last axis is missing.
    """

    def __init__(self, call: KernelCall, index: int, rows: Rows, *, single: bool = False) -> None:
        self._rows = rows
        self._where = call.head.node.where
        self._single = single
        shape = call.spec(index).shape
        self._shape = shape if single else shape[:-1]
        known = call.static(index)
        self._known: Value | None = None
        if known is not None and self._fits(known):
            offsets = np.empty(self._shape, np.intp)
            self._compute(known, offsets, np.empty_like(offsets))
            self._known = call.constant(offsets.reshape(-1))
            return
        self._indices = call.read(index)
        self._scratch = [call.scratch(math.prod(self._shape) * _ITEM) for _ in range(2)]

    def bind(self, buffers: Buffers) -> tuple[Positions, list[Call]]:
        """Return the offsets, (n,), and the calls that compute them."""
        if self._known is not None:
            return buffers.array(self._known), []
        offsets, spare = (buffers.array(s).view(np.intp) for s in self._scratch)
        shaped = offsets.reshape(self._shape), spare.reshape(self._shape)
        return offsets, [functools.partial(self._compute, buffers.array(self._indices), *shaped)]

    def _columns(self, indices: Array) -> list[Array]:
        if self._single:
            return [indices]
        return [indices[..., i] for i in range(len(self._rows.sizes))]

    def _fits(self, indices: Array) -> bool:
        # an index out of range is an error only when a run uses it
        pairs = zip(self._columns(indices), self._rows.sizes, strict=True)
        return all(-n <= int(c.min()) and int(c.max()) < n for c, n in pairs)

    def _compute(self, indices: Array, offsets: Positions, spare: Positions) -> None:
        columns = self._columns(indices)
        for i, (column, stride) in enumerate(zip(columns, self._rows.strides, strict=True)):
            size, part = self._rows.sizes[i], spare if i else offsets
            has_negative = need_in_range(column, size, self._rows.axis + i, self._where)
            np.copyto(part, column, casting="unsafe")  # in range, so nothing is lost
            if has_negative:
                np.add(part, size, part, where=part < 0)
            if stride != 1:
                np.multiply(part, stride, part)
            if i:
                np.add(offsets, part, offsets)
        if not columns:
            offsets[...] = 0
        if self._rows.base.size > 1:  # else it is 0
            np.add(offsets, self._rows.base, offsets)


def need_in_range(indices: Array, size: int, axis: int, where: str) -> bool:
    """Check that all indices are in range; return whether some count from the end.

    They are compared in their own type: none wraps around.

    Raises:
        BackendError: An index is out of range; the message names the first.
    """
    low, high = int(indices.min()), int(indices.max())
    if low < -size or high >= size:
        wrong = indices[(indices < -size) | (indices >= size)]
        raise BackendError(
            f"index {wrong[0]} is out of range on axis {axis}, which has {size} elements",
            where=where,
            hint=f"an index must be between {-size} and {size - 1}",
        )
    return low < 0
