"""Indices of the maximum and minimum, and the first elements in order."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array, ScaleOffset
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import NUMBERS
from dovetail_opset import STANDARD

_INDEX = np.dtype(np.intp)  # the type of NumPy's indices
_LEAST_ROW = 4  # elements for each one that is kept: to sort all of fewer takes as long


@KERNELS.register(STANDARD, "Argmax")
def argmax(call: KernelCall) -> Step | None:
    """Run Argmax; the first NaN counts as the maximum."""
    return _indices(call, np.argmax)


@KERNELS.register(STANDARD, "Argmin")
def argmin(call: KernelCall) -> Step | None:
    """Run Argmin; the first NaN counts as the minimum."""
    return _indices(call, np.argmin)


def _indices(call: KernelCall, function: Callable[..., Any]) -> Step | None:
    if call.spec(0).dtype not in NUMBERS or call.outputs[0].dtype not in NUMBERS:
        return None
    shape = call.outputs[0].shape
    if 0 in shape:
        return None
    axis, keeps = call.op.axis, call.op.keep_dims
    x, out = call.read(0), call.write()
    pad = call.scratch(math.prod(shape) * _INDEX.itemsize)

    def bind(buffers: Buffers) -> Bound:
        found = buffers.array(pad).view(_INDEX).reshape(shape)
        find = functools.partial(function, buffers.array(x), axis=axis, out=found, keepdims=keeps)
        move = functools.partial(np.copyto, buffers.array(out), found, casting="unsafe")
        return call_sequence([find, move])

    return call.step(bind)


@KERNELS.register(STANDARD, "TopK", quantized=True)
@KERNELS.register(STANDARD, "TopK")
def top_k(call: KernelCall) -> Step | None:
    """Run TopK where few elements of each row are kept: only those are sorted."""
    data, values, k = call.spec(0), call.outputs[0], int(call.op.k)
    size, is_largest = data.shape[-1], bool(call.op.largest)
    is_move = (data.dtype, data.encoding) == (values.dtype, values.encoding)
    if not is_move or not isinstance(data.encoding, ScaleOffset | None):
        return None
    if data.dtype.storage.kind not in "fiu" or 0 in values.shape or size < _LEAST_ROW * k:
        return None
    x, *outs = call.read(0), call.write(0), call.write(1)

    def bind(buffers: Buffers) -> Bound:
        rows = buffers.array(x).reshape(-1, size)
        found, places = (buffers.array(out).reshape(-1, k) for out in outs)

        def run() -> None:
            at = _first(rows, k) if not is_largest else _last(rows, k)
            np.copyto(found, np.take_along_axis(rows, at, 1))
            np.copyto(places, at, casting="unsafe")

        return run

    return call.step(bind)


def _last(rows: Array, k: int) -> Array:
    """Return the indices of the k largest elements of each row; see the op."""
    least = np.partition(rows, -k, axis=1)[:, -k, None]
    kept = np.flatnonzero(~(rows < least))  # NaN is not less, either
    order, ends = _in_order(rows, kept)
    return np.asarray(kept[order[ends[:, None] - 1 - np.arange(k)]] % rows.shape[1])


def _first(rows: Array, k: int) -> Array:
    """Return the indices of the k smallest elements of each row; see the op."""
    most = np.partition(rows, k - 1, axis=1)[:, k - 1, None]
    kept = np.flatnonzero(~(rows > most))[::-1]  # of equal elements, the last one comes first
    order, ends = _in_order(rows, kept)
    starts = np.concatenate([[0], ends[:-1]])
    return np.asarray(kept[order[starts[:, None] + np.arange(k)]] % rows.shape[1])


def _in_order(rows: Array, kept: Array) -> tuple[Array, Array]:
    """Return the order of elements by row and value, and where each row ends in it."""
    row = kept // rows.shape[1]
    order = np.lexsort((rows.reshape(-1)[kept], row))
    return order, np.bincount(row, minlength=len(rows)).cumsum()
