"""Normalizations."""

from __future__ import annotations

import functools
import math

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_cpu.kernels._calls import (
    Call,
    block_size,
    blocks,
    constant,
    floats,
    in_order,
    is_float32,
    scratch_floats,
    ufunc,
)
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE


@KERNELS.register(PACKAGE, "Batchnorm")
def batchnorm(call: KernelCall) -> Step | None:
    """Batchnorm: a product and a sum for each channel, a block of rows at a time."""
    if not is_float32(call):
        return None
    factors = [call.read(i) if call.has(i) else None for i in (1, 2)]
    x, out = call.read(0), call.write()
    channels = call.spec(1).shape[0]
    total = math.prod(call.spec(0).shape)

    def bind(buffers: Buffers) -> Bound:
        rows, results = (buffers.array(v).reshape(-1, channels) for v in (x, out))
        weight, bias = (None if v is None else buffers.array(v) for v in factors)
        calls: list[Call] = []
        for block in blocks(len(rows), max(1, block_size(total) // channels)):
            result = results[block]
            if weight is not None:
                calls.append(ufunc(np.multiply, rows[block], weight, result))
            if bias is not None:
                calls.append(ufunc(np.add, result, bias, result))
        return in_order(calls)

    # x is declared last of the inputs that are there
    return call.step(bind, in_place=[(0, sum(f is not None for f in factors))])


@KERNELS.register(PACKAGE, "LayerNorm")
def layer_norm(call: KernelCall) -> Step | None:
    """LayerNorm over the last axes in order, a block of rows at a time."""
    shape = call.spec(0).shape
    axes = tuple(int(axis) for axis in call.op.axes)
    first = len(shape) - len(axes)
    if not is_float32(call) or not axes or axes != tuple(range(first, len(shape))):
        return None
    width = math.prod(shape[first:])
    height = math.prod(shape[:first])
    x = call.read(0)
    gamma, beta = (call.read(i) if call.has(i) else None for i in (1, 2))
    out = call.write()
    most = min(max(1, block_size(width * height) // width), height)
    pad = scratch_floats(call, most)
    count, epsilon = constant(width), constant(call.op.epsilon)

    def bind(buffers: Buffers) -> Bound:
        rows, results = (buffers.array(v).reshape(height, width) for v in (x, out))
        scale, shift = (
            None if v is None else buffers.array(v).reshape(width) for v in (gamma, beta)
        )
        spare = floats(buffers, pad)
        calls: list[Call] = []
        for block in blocks(height, most):
            each = spare[: block.stop - block.start]
            result = results[block]
            calls += _centred_calls(rows[block], result, each, count)
            calls += _scaled_calls(result, each, count, epsilon)
            if scale is not None:
                calls.append(ufunc(np.multiply, result, scale, result))
            if shift is not None:
                calls.append(ufunc(np.add, result, shift, result))
        return in_order(calls)

    return call.step(bind, in_place=[(0, 0)])


def _centred_calls(x: Array, out: Array, each: Array, count: Array) -> list[Call]:
    return [
        functools.partial(np.add.reduce, x, 1, None, each),
        ufunc(np.divide, each, count, each),
        ufunc(np.subtract, x, each[:, None], out),
    ]


def _scaled_calls(out: Array, each: Array, count: Array, epsilon: Array) -> list[Call]:
    return [
        ufunc(np.vecdot, out, out, each),
        ufunc(np.divide, each, count, each),
        ufunc(np.add, each, epsilon, each),
        ufunc(np.sqrt, each, each),
        ufunc(np.divide, out, each[:, None], out),
    ]
