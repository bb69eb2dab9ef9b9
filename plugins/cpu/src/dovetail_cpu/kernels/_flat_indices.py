"""Where indices point in flat data, looked at in every run, since NumPy would let some wrap."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import BackendError
from dovetail.ir import Array, Shape
from dovetail.runtime.plan import Buffers, KernelCall, Value
from dovetail_cpu.kernels._calls import Call

Positions = NDArray[np.intp]
_ITEM = np.dtype(np.intp).itemsize


@dataclass(frozen=True, slots=True)
class Rows:
    """How a row of indices becomes a place.

    Attributes:
        axis: Which axis of the data the first index of a row is about.
        extents: How many elements there are, for each index of a row.
        strides: How many places apart these lie.
        base: What is added to every place; broadcasts to the rows.
    """

    axis: int
    extents: Shape
    strides: Shape
    base: Positions

    @classmethod
    def along(cls, data: Shape, axis: int, indices: Shape) -> Rows:
        """Return rows of one index: along an axis, at the index's own place on the others."""
        places = np.zeros((1,) * len(indices), np.intp)
        for other, extent in enumerate(indices):
            if other != axis:
                shape = [extent if i == other else 1 for i in range(len(indices))]
                stride = math.prod(data[other + 1 :])
                places = places + (np.arange(extent) * stride).reshape(shape)
        return cls(axis, (data[axis],), (math.prod(data[axis + 1 :]),), places)

    @classmethod
    def into(cls, data: Shape, depth: int, batch: int, indices: Shape) -> Rows:
        """Return rows into the `depth` dimensions behind the batch; places are whole slices."""
        inner = data[batch : batch + depth]
        strides = tuple(math.prod(inner[i + 1 :]) for i in range(depth))
        count, rows = math.prod(data[:batch]), len(indices) - 1 - batch
        base = np.arange(count) * math.prod(inner)
        return cls(batch, inner, strides, base.reshape(data[:batch] + (1,) * rows))


class FlatIndices:
    """The places of a call's indices: computed once if they are known, else in every run.

    Args:
        call: Its inputs are declared as read here, and scratchpads.
        index: Which input the indices are: rows in the last dimension.
        rows: What they mean.
        single: Whether the indices are rows of one, without that dimension.
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
            places = np.empty(self._shape, np.intp)
            self._compute(known, places, np.empty_like(places))
            self._known = call.constant(places.reshape(-1))
            return
        self._indices = call.read(index)
        self._scratch = [call.scratch(math.prod(self._shape) * _ITEM) for _ in range(2)]

    def bind(self, buffers: Buffers) -> tuple[Positions, list[Call]]:
        """Return the places, one dimension, and the calls that fill them."""
        if self._known is not None:
            return buffers.array(self._known), []
        places, spare = (buffers.array(s).view(np.intp) for s in self._scratch)
        shaped = places.reshape(self._shape), spare.reshape(self._shape)
        return places, [functools.partial(self._compute, buffers.array(self._indices), *shaped)]

    def _columns(self, indices: Array) -> list[Array]:
        if self._single:
            return [indices]
        return [indices[..., i] for i in range(len(self._rows.extents))]

    def _fits(self, indices: Array) -> bool:
        # one out of range is no fault before a run needs it
        pairs = zip(self._columns(indices), self._rows.extents, strict=True)
        return all(-n <= int(c.min()) and int(c.max()) < n for c, n in pairs)

    def _compute(self, indices: Array, places: Positions, spare: Positions) -> None:
        np.copyto(places, self._rows.base)
        columns = self._columns(indices)
        for i, (column, stride) in enumerate(zip(columns, self._rows.strides, strict=True)):
            extent = self._rows.extents[i]
            has_negative = need_in_range(column, extent, self._rows.axis + i, self._where)
            np.copyto(spare, column, casting="unsafe")  # in range, so nothing is lost
            if has_negative:
                np.add(spare, extent, spare, where=spare < 0)
            np.multiply(spare, stride, spare)
            np.add(places, spare, places)


def need_in_range(indices: Array, extent: int, axis: int, where: str) -> bool:
    """Refuses indices that are out of range; gives whether some count from the end.

    Raises:
        BackendError: One is; names the first.
    """
    low, high = int(indices.min()), int(indices.max())
    if low < -extent or high >= extent:
        wrong = indices[(indices < -extent) | (indices >= extent)]
        raise BackendError(
            f"index {wrong[0]} is out of range on axis {axis}, which has {extent} elements",
            where=where,
            hint="an index must lie between minus the number of elements and one below it",
        )
    return low < 0
