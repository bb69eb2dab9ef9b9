"""Reductions."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dovetail.ir import Shape
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import (
    Call,
    block_size,
    blocks,
    constant,
    copy,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels._rows import Find, added, are_indexed, extremes_by_index
from dovetail_numpy.kernels.conditions import is_float32, is_plain
from dovetail_opset import STANDARD

# Extremes of shorter rows are found in columns of a transposed copy: 8,400 rows of 17 took 246 us
# by np.maximum.reduce and 67 in columns.
_NARROW = 64


@KERNELS.register(STANDARD, "ReduceMean")
def reduce_mean(call: KernelCall) -> Step | None:
    """Run ReduceMean: a sum, divided."""
    return _reduced(call, np.add, is_mean=True)


@KERNELS.register(STANDARD, "ReduceSum")
def reduce_sum(call: KernelCall) -> Step | None:
    """Run ReduceSum."""
    return _reduced(call, np.add)


@KERNELS.register(STANDARD, "ReduceMax")
def reduce_max(call: KernelCall) -> Step | None:
    """Run ReduceMax."""
    return _extreme(call, np.maximum, np.argmax)


@KERNELS.register(STANDARD, "ReduceMin")
def reduce_min(call: KernelCall) -> Step | None:
    """Run ReduceMin."""
    return _extreme(call, np.minimum, np.argmin)


@KERNELS.register(STANDARD, "ReduceSumSquare")
def reduce_sum_square(call: KernelCall) -> Step | None:
    """Run ReduceSumSquare: rows are multiplied and added at once, elements of a row in pairs."""
    shape = call.spec(0).shape
    if not is_float32(call):
        return None
    axes = {int(axis) % len(shape) for axis in call.op.axes} if shape else set()
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    adds_rows = len(shape) - 1 in kept
    x, out = call.read(0), call.write()
    squares = None if adds_rows else call.scratch(call.spec(0).nbytes)

    def bind(buffers: Buffers) -> Bound:
        values = buffers.array(x)
        result = buffers.array(out).reshape([shape[axis] for axis in kept])
        if squares is None:
            every = range(len(shape))
            return functools.partial(np.einsum, values, every, values, every, kept, out=result)
        room = buffers.array(squares).view(np.float32).reshape(shape)
        total = functools.partial(np.add.reduce, room, axis=tuple(axes), out=result)
        return call_sequence([ufunc(np.multiply, values, values, room), total])

    return call.step(bind)


@KERNELS.register(STANDARD, "CumulativeSum")
def cumulative_sum(call: KernelCall) -> Step | None:
    """Run CumulativeSum."""
    if not is_plain(call):
        return None
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        return functools.partial(call.op.sum_into, buffers.array(out), buffers.array(x))

    return call.step(bind)


def _extreme(call: KernelCall, function: np.ufunc, find: Find) -> Step | None:
    """Return the step of maxima or minima.

    Args:
        call: The call.
        function: The maximum or minimum of two elements.
        find: Returns the index of each row's maximum or minimum, or of its first NaN.
    """
    length = _row_length(call.spec(0).shape, _axes(call))
    if length is None or not is_float32(call):
        return _reduced(call, function)
    if length < _NARROW:
        return _by_column(call, length, function)
    is_indexed = are_indexed(math.prod(call.spec(0).shape) // length, length)
    return _by_index(call, length, find) if is_indexed else _reduced(call, function)


def _by_column(call: KernelCall, length: int, function: np.ufunc) -> Step:
    height = math.prod(call.spec(0).shape) // length
    most = min(max(1, block_size(height * length) // length), height)
    x, out, room = call.read(0), call.write(), scratch_floats(call, most * length)

    def bind(buffers: Buffers) -> Bound:
        rows, result = buffers.array(x).reshape(height, length), buffers.array(out).reshape(-1)
        spare, calls = floats(buffers, room), list[Call]()
        for block in blocks(height, most):
            columns = rows[block].T
            copied = spare[: columns.size].reshape(columns.shape)
            calls.append(copy(copied, columns))
            calls.append(functools.partial(function.reduce, copied, 0, None, result[block]))
        return call_sequence(calls)

    return call.step(bind)


def _by_index(call: KernelCall, length: int, find: Find) -> Step:
    height = math.prod(call.spec(0).shape) // length
    x, out, room = call.read(0), call.write(), call.scratch(height * np.dtype(np.intp).itemsize)

    def bind(buffers: Buffers) -> Bound:
        rows, result = buffers.array(x).reshape(height, length), buffers.array(out).reshape(-1)
        found = buffers.array(room).view(np.intp)
        return call_sequence(extremes_by_index(find, rows, found, result))

    return call.step(bind)


def _axes(call: KernelCall) -> tuple[int, ...]:
    return tuple(int(axis) for axis in call.op.axes)


def _row_length(shape: Shape, axes: tuple[int, ...]) -> int | None:
    """Return the number of elements on the last axes; None if these are not the axes."""
    if not axes or sorted(axes) != list(range(len(shape) - len(axes), len(shape))):
        return None
    return math.prod(shape[axis] for axis in axes)


def _reduced(call: KernelCall, function: np.ufunc, *, is_mean: bool = False) -> Step | None:
    if not is_float32(call):
        return None
    shape, axes = call.spec(0).shape, _axes(call)
    length = math.prod(shape[axis] for axis in axes)
    adds_rows = function is np.add and _row_length(shape, axes) is not None
    count = constant(length)
    keeps: bool = call.op.keep_dims
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        calls: list[Call] = []
        if adds_rows:
            rows = buffers.array(x).reshape(-1, length)
            calls.append(added(rows, result.reshape(-1)))
        else:
            params: dict[str, Any] = {"axis": axes, "keepdims": keeps, "out": result}
            calls.append(functools.partial(function.reduce, buffers.array(x), **params))
        if is_mean:
            calls.append(ufunc(np.divide, result, count, result))
        return call_sequence(calls)

    return call.step(bind)
