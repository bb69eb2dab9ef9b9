"""Normalizations."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import (
    Call,
    block_size,
    blocks,
    constant,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels._instance import item_norm
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "Batchnorm")
def batchnorm(call: KernelCall) -> Step | None:
    """Run Batchnorm: a product and a sum for each channel, a block of rows at a time."""
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
        return call_sequence(calls)

    # x is declared after all other inputs
    return call.step(bind, in_place=[(0, sum(f is not None for f in factors))])


@KERNELS.register(STANDARD, "LayerNorm")
def layer_norm(call: KernelCall) -> Step | None:
    """Run LayerNorm over the last axes in order, a block of rows at a time."""
    return _row_norm(call, is_centered=True)


@KERNELS.register(STANDARD, "RmsNorm")
def rms_norm(call: KernelCall) -> Step | None:
    """Run RmsNorm over the last axes in order, a block of rows at a time."""
    return _row_norm(call, is_centered=False)


def _row_norm(call: KernelCall, *, is_centered: bool) -> Step | None:
    rows_of = _rows(call, tuple(int(axis) for axis in call.op.axes))
    if rows_of is None:
        return None
    height, width, most = rows_of
    x = call.read(0)
    gamma, beta = (call.read(i) if call.has(i) else None for i in (1, 2))
    out = call.write()
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
            source, result = rows[block], results[block]
            if is_centered:
                calls += _centered_calls(source, result, each, count)
                source = result
            calls += _scaled_calls(source, result, each, count, epsilon)
            calls += _affine_calls(result, scale, shift)
        return call_sequence(calls)

    return call.step(bind, in_place=[(0, 0)])


@KERNELS.register(STANDARD, "L2Norm")
def l2_norm(call: KernelCall) -> Step | None:
    """Run L2Norm over the last axes, a block of rows at a time."""
    rows_of = _rows(call, tuple(sorted(call.op.over())))
    if rows_of is None:
        return None
    height, width, most = rows_of
    x, out = call.read(0), call.write()
    pad, least = scratch_floats(call, most), constant(call.op.epsilon)

    def bind(buffers: Buffers) -> Bound:
        rows, results = (buffers.array(v).reshape(height, width) for v in (x, out))
        spare = floats(buffers, pad)
        calls: list[Call] = []
        for block in blocks(height, most):
            each = spare[: block.stop - block.start]
            calls += [
                ufunc(np.vecdot, rows[block], rows[block], each),
                ufunc(np.sqrt, each, each),
                ufunc(np.maximum, each, least, each),
                ufunc(np.divide, rows[block], each[:, None], results[block]),
            ]
        return call_sequence(calls)

    return call.step(bind, in_place=[(0, 0)])


@KERNELS.register(STANDARD, "InstanceNorm")
def instance_norm(call: KernelCall) -> Step | None:
    """Run InstanceNorm by mean and deviation over the spatial axes."""
    if not call.op.is_by_channel:
        return None
    return item_norm(call, groups=call.spec(0).shape[-1])


@KERNELS.register(STANDARD, "GroupNorm")
def group_norm(call: KernelCall) -> Step | None:
    """Run GroupNorm."""
    return item_norm(call, groups=call.op.group)


def _rows(call: KernelCall, axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return the number of rows over these axes, their length and the rows of a block.

    None if these are not the last axes in order, or a tensor is empty or not float32.
    """
    shape = call.spec(0).shape
    first = len(shape) - len(axes)
    if not is_float32(call) or not axes or axes != tuple(range(first, len(shape))):
        return None
    width, height = math.prod(shape[first:]), math.prod(shape[:first])
    return height, width, min(max(1, block_size(width * height) // width), height)


def _centered_calls(x: Array, out: Array, each: Array, count: Array) -> list[Call]:
    return [
        functools.partial(np.add.reduce, x, 1, None, each),
        ufunc(np.divide, each, count, each),
        ufunc(np.subtract, x, each[:, None], out),
    ]


def _scaled_calls(x: Array, out: Array, each: Array, count: Array, epsilon: Array) -> list[Call]:
    return [
        ufunc(np.vecdot, x, x, each),
        ufunc(np.divide, each, count, each),
        ufunc(np.add, each, epsilon, each),
        ufunc(np.sqrt, each, each),
        ufunc(np.divide, x, each[:, None], out),
    ]


def _affine_calls(out: Array, scale: Array | None, shift: Array | None) -> Iterator[Call]:
    if scale is not None:
        yield ufunc(np.multiply, out, scale, out)
    if shift is not None:
        yield ufunc(np.add, out, shift, out)
