"""Softmax and its logarithm."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.kernels._calls import Call, constant, floats, scratch_floats, ufunc
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels._rows import added, are_indexed, extremes_by_index
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "Softmax")
def softmax(call: KernelCall) -> Step | None:
    """Run Softmax, in place where possible; maxima and sums are in a scratchpad."""
    if not is_float32(call):
        return None
    axis, kept = call.op.axis, _kept(call)
    x, out = call.read(0), call.write()
    sums, indices = scratch_floats(call, math.prod(kept)), _indices(call)

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        each = floats(buffers, sums).reshape(kept)
        return call_sequence(
            [
                *_shifted_calls(call, buffers.array(x), result, each, _found(buffers, indices)),
                ufunc(np.exp, result, result),
                _sum_call(result, each, axis),
                ufunc(np.divide, result, each, result),
            ]
        )

    return call.step(bind, in_place=[(0, 0)])


@KERNELS.register(STANDARD, "LogSoftmax")
def log_softmax(call: KernelCall) -> Step | None:
    """Run LogSoftmax, in place where possible; the exponentials are in a scratchpad."""
    if not is_float32(call):
        return None
    shape, axis, kept = call.spec(0).shape, call.op.axis, _kept(call)
    x, out = call.read(0), call.write()
    sums, indices = scratch_floats(call, math.prod(kept)), _indices(call)
    pad = scratch_floats(call, math.prod(shape))

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        each, powers = floats(buffers, sums).reshape(kept), floats(buffers, pad).reshape(shape)
        return call_sequence(
            [
                *_shifted_calls(call, buffers.array(x), result, each, _found(buffers, indices)),
                ufunc(np.exp, result, powers),
                _sum_call(powers, each, axis),
                ufunc(np.log, each, each),
                ufunc(np.subtract, result, each, result),
            ]
        )

    return call.step(bind, in_place=[(0, 0)])


def _kept(call: KernelCall) -> tuple[int, ...]:
    """Return the shape with a size of 1 on the axis."""
    shape, axis = call.spec(0).shape, call.op.axis
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _indices(call: KernelCall) -> Value | None:
    """Declare a scratchpad for the indices of maxima; None where these are not searched for."""
    shape, axis = call.spec(0).shape, call.op.axis
    rows = math.prod(shape[:axis])
    is_indexed = math.prod(shape[axis + 1 :]) == 1 and are_indexed(rows, shape[axis])
    return call.scratch(rows * np.dtype(np.intp).itemsize) if is_indexed else None


def _found(buffers: Buffers, indices: Value | None) -> Array | None:
    return None if indices is None else buffers.array(indices).view(np.intp)


def _shifted_calls(
    call: KernelCall, x: Array, out: Array, each: Array, indices: Array | None
) -> list[Call]:
    """Return the calls for beta * x minus its maximum."""
    beta = call.op.beta
    if indices is None:
        calls = [_reduce(np.maximum if beta >= 0 else np.minimum, x, each, call.op.axis)]
    else:
        find, rows = np.argmax if beta >= 0 else np.argmin, x.reshape(len(indices), -1)
        calls = extremes_by_index(find, rows, indices, each.reshape(-1))
    calls.append(ufunc(np.subtract, x, each, out))
    if beta != 1:
        calls.append(ufunc(np.multiply, out, constant(beta), out))
    return calls


def _sum_call(powers: Array, each: Array, axis: int) -> Call:
    """Return the call that adds the exponentials along the axis."""
    if math.prod(powers.shape[axis + 1 :]) == 1:
        return added(powers.reshape(-1, powers.shape[axis]), each.reshape(-1))
    return _reduce(np.add, powers, each, axis)


def _reduce(function: np.ufunc, x: Array, out: Array, axis: int) -> Call:
    params: dict[str, Any] = {"axis": axis, "keepdims": True, "out": out}
    return functools.partial(function.reduce, x, **params)
