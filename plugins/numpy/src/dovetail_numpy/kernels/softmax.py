"""Softmax and its logarithm."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import Call, constant, floats, scratch_floats, ufunc
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "Softmax")
def softmax(call: KernelCall) -> Step | None:
    """Run Softmax, in place where possible; maxima and sums are in a scratchpad."""
    if not is_float32(call):
        return None
    axis, kept = call.op.axis, _kept(call)
    x, out = call.read(0), call.write()
    sums = scratch_floats(call, math.prod(kept))

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        each = floats(buffers, sums).reshape(kept)
        return call_sequence(
            [
                *_shifted_calls(buffers.array(x), result, each, axis, call.op.beta),
                ufunc(np.exp, result, result),
                _reduce(np.add, result, each, axis),
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
    sums = scratch_floats(call, math.prod(kept))
    pad = scratch_floats(call, math.prod(shape))

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        each, powers = floats(buffers, sums).reshape(kept), floats(buffers, pad).reshape(shape)
        return call_sequence(
            [
                *_shifted_calls(buffers.array(x), result, each, axis, call.op.beta),
                ufunc(np.exp, result, powers),
                _reduce(np.add, powers, each, axis),
                ufunc(np.log, each, each),
                ufunc(np.subtract, result, each, result),
            ]
        )

    return call.step(bind, in_place=[(0, 0)])


def _kept(call: KernelCall) -> tuple[int, ...]:
    """Return the shape with a size of 1 on the axis."""
    shape, axis = call.spec(0).shape, call.op.axis
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _shifted_calls(x: Array, out: Array, each: Array, axis: int, beta: float) -> list[Call]:
    """Return the calls for beta * x minus its maximum."""
    extreme = np.maximum if beta >= 0 else np.minimum
    calls = [_reduce(extreme, x, each, axis), ufunc(np.subtract, x, each, out)]
    if beta != 1:
        calls.append(ufunc(np.multiply, out, constant(beta), out))
    return calls


def _reduce(function: np.ufunc, x: Array, out: Array, axis: int) -> Call:
    params: dict[str, Any] = {"axis": axis, "keepdims": True, "out": out}
    return functools.partial(function.reduce, x, **params)
