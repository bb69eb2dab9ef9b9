"""Scattering by index."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import Call, blocks, copy, ufunc
from dovetail_numpy.kernels._flat_indices import FlatIndices, Positions, Rows
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import NUMBERS, only_moves
from dovetail_opset import STANDARD

_ITEM = np.dtype(np.intp).itemsize
_ELEMENTS = 8192  # whose indices are computed together
_FUNCTIONS = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum}


@KERNELS.register(STANDARD, "ScatterElements")
def scatter_elements(call: KernelCall) -> Step | None:
    """Run ScatterElements: copy the data unless updated in place, then one NumPy call."""
    indices = call.spec(1).shape
    if not _is_plain(call):
        return None
    rows = Rows.along(call.spec(0).shape, call.op.axis, indices)
    return _updated(call, rows, (), single=True)


@KERNELS.register(STANDARD, "ScatterNd")
def scatter_nd(call: KernelCall) -> Step | None:
    """Run ScatterNd: copy the data unless updated in place, then one NumPy call."""
    data, indices = call.spec(0).shape, call.spec(1).shape
    if not _is_plain(call):
        return None
    rows = Rows.into(data, indices[-1], 0, indices)
    return _updated(call, rows, data[indices[-1] :], single=False)


def _is_plain(call: KernelCall) -> bool:
    if not only_moves(call, 0, 2) or 0 in call.spec(1).shape:
        return False
    return not call.op.reduction or call.outputs[0].dtype in NUMBERS


def _updated(call: KernelCall, rows: Rows, slices: Shape, *, single: bool) -> Step:
    """Return the step that updates slices of this shape at offsets into all of the data."""
    x, new = call.read(0), call.read(2)
    offsets = FlatIndices(call, 1, rows, single=single)
    out = call.write()
    name: str = call.op.reduction.name
    size = math.prod(slices)
    # the fast code of ufunc.at takes the index of each element
    each = call.scratch(_block(size) * size * _ITEM) if name != "NONE" and size > 1 else None

    def bind(buffers: Buffers) -> Bound:
        found, calls = offsets.bind(buffers)
        data, result = buffers.array(x), buffers.array(out)
        flat = result.reshape(result.size // size, *slices)
        updates = buffers.array(new).reshape(len(found), *slices)
        if buffers.address(x) != buffers.address(out):
            calls.append(copy(result, data))
        if name == "NONE":
            calls.append(functools.partial(flat.__setitem__, found, updates))
        elif each is None:
            calls.append(functools.partial(_FUNCTIONS[name].at, flat, found, updates))
        else:
            room = buffers.array(each).view(np.intp).reshape(-1, size)
            calls += _by_element(_FUNCTIONS[name], flat.reshape(-1, size), found, updates, room)
        return call_sequence(calls)

    # the indices are checked before anything is written, so a failed run changes nothing
    return call.step(bind, in_place=[(0, 0)])


def _block(size: int) -> int:
    """Return the number of slices whose elements get indices together."""
    return max(1, _ELEMENTS // size)


def _by_element(
    function: np.ufunc, data: Array, found: Positions, updates: Array, room: Positions
) -> Iterator[Call]:
    """Yield the calls that update slices in order, element by element.

    Args:
        function: The function of an element and its update.
        data: All slices, (n, size).
        found: Indices of the slices to update.
        updates: One for each of these.
        room: Scratch for the indices of the elements of a block of slices, (m, size).
    """
    size = data.shape[1]
    elements, offsets, flat = np.arange(size), found[:, None], updates.reshape(-1)
    for block in blocks(len(found), len(room)):
        indices = room[: len(offsets[block])]
        yield ufunc(np.multiply, offsets[block], np.asarray(size), indices)
        yield ufunc(np.add, indices, elements, indices)
        part = flat[block.start * size : block.stop * size]
        yield functools.partial(function.at, data.reshape(-1), indices.reshape(-1), part)
