"""Activations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dovetail.ir import Array, DType
from dovetail.ops import NodeView
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import (
    Call,
    block_size,
    blocks,
    clip_between,
    constant,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels._epilogue import clip_of, clip_passes
from dovetail_numpy.kernels._flat import Passes, flat_step
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_opset import STANDARD

# erf(x) = 1 - (a1 t + ... + a5 t^5) exp(-x^2), t = 1 / (1 + p x), x >= 0, off by at most 1.5e-7.
# Source: Abramowitz and Stegun 1964, formula 7.1.26, after Hastings. Highest power first.
_ERF_P = 0.3275911
_ERF_A = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)

# From here on, a float32 does not distinguish log(1 + exp(x)) from x.
_LINEAR = 17.5


def sigmoid_passes(x: Array, out: Array) -> Iterator[Call]:
    """Yield the calls for 1 / (1 + exp(-x)); an overflow of exp correctly results in 0."""
    yield ufunc(np.negative, x, out)
    yield ufunc(np.exp, out, out)
    yield ufunc(np.add, out, constant(1), out)
    yield ufunc(np.reciprocal, out, out)


def swish_passes(x: Array, out: Array, below: Array) -> Iterator[Call]:
    """Yield the calls for x / (1 + exp(-x)); an overflow of exp correctly results in 0."""
    yield ufunc(np.negative, x, below)
    yield ufunc(np.exp, below, below)
    yield ufunc(np.add, below, constant(1), below)
    yield ufunc(np.divide, x, below, out)


def hard_swish_passes(x: Array, out: Array, gate: Array) -> Iterator[Call]:
    """Yield the calls for x * clip(x + 3, 0, 6) / 6."""
    yield ufunc(np.add, x, constant(3), gate)
    yield from clip_between(gate, 0, 6, gate)
    yield ufunc(np.divide, gate, constant(6), gate)
    yield ufunc(np.multiply, x, gate, out)


def elu_passes(alpha: float) -> Passes:
    """Return the passes of max(x, 0) + alpha * expm1(min(x, 0)): exp(x) - 1 is inexact near 0."""

    def passes(x: Array, out: Array, below: Array) -> Iterator[Call]:
        yield from clip_between(x, -math.inf, 0, below)
        yield ufunc(np.expm1, below, below)
        yield ufunc(np.multiply, below, constant(alpha), below)
        yield from clip_between(x, 0, math.inf, out)
        yield ufunc(np.add, out, below, out)

    return passes


def gelu_passes(x: Array, out: Array, size: Array, t: Array, tail: Array) -> Iterator[Call]:
    """Yield the calls for max(x, 0) - |x| / 2 * erfc(|x| / sqrt 2), exact far below 0 too."""
    yield ufunc(np.abs, x, size)
    # erfc of a larger number is 0 in float32, and infinity times 0 would be NaN
    yield from clip_between(size, 0, 16, size)
    yield ufunc(np.multiply, size, constant(_ERF_P * math.sqrt(0.5)), t)
    yield ufunc(np.add, t, constant(1), t)
    yield ufunc(np.reciprocal, t, t)
    yield ufunc(np.multiply, t, constant(-0.5 * _ERF_A[0]), tail)
    for coefficient in _ERF_A[1:]:
        yield ufunc(np.add, tail, constant(-0.5 * coefficient), tail)
        yield ufunc(np.multiply, tail, t, tail)
    yield ufunc(np.multiply, size, size, t)
    yield ufunc(np.multiply, t, constant(-0.5), t)
    yield ufunc(np.exp, t, t)
    yield ufunc(np.multiply, tail, t, tail)
    yield ufunc(np.multiply, tail, size, tail)
    yield from clip_between(x, 0, math.inf, out)
    yield ufunc(np.add, out, tail, out)


def softplus_passes(x: Array, out: Array, small: Array, sum_: Array, rest: Array) -> Iterator[Call]:
    """Return the calls for max(x, 0) + log(1 + e), e = exp(-|x|).

    NumPy vectorizes log, but not log1p: what e loses in the sum s is added to log s, divided by s.
    """
    yield ufunc(np.abs, x, small)
    yield ufunc(np.negative, small, small)
    yield ufunc(np.exp, small, small)
    yield ufunc(np.add, small, constant(1), sum_)
    yield ufunc(np.subtract, sum_, constant(1), rest)
    yield ufunc(np.subtract, small, rest, small)
    yield ufunc(np.divide, small, sum_, small)
    yield ufunc(np.log, sum_, sum_)
    yield ufunc(np.add, small, sum_, small)
    yield from clip_between(x, 0, math.inf, out)
    yield ufunc(np.add, out, small, out)


def hard_sigmoid_passes(alpha: float, beta: float) -> Passes:
    """Return the passes of clip(alpha * x + beta, 0, 1)."""

    def passes(x: Array, out: Array) -> Iterator[Call]:
        yield ufunc(np.multiply, x, constant(alpha), out)
        yield ufunc(np.add, out, constant(beta), out)
        yield from clip_between(out, 0, 1, out)

    return passes


def tanh_passes(x: Array, out: Array) -> Iterator[Call]:
    """Yield the calls for tanh(x)."""
    yield ufunc(np.tanh, x, out)


@KERNELS.register(STANDARD, "Relu")
@KERNELS.register(STANDARD, "Relu1")
@KERNELS.register(STANDARD, "Relu6")
@KERNELS.register(STANDARD, "ReluMinMax")
def clip(call: KernelCall) -> Step | None:
    """Run Relu, Relu1, Relu6 and ReluMinMax."""
    limits = clip_of(call.head)
    if limits is None or not is_float32(call):
        return None
    return _clipped(call, *limits)


def _clipped(call: KernelCall, low: float | None, high: float | None) -> Step:
    is_single = low != 0 or high is None  # see `clip_between`
    return flat_step(call, clip_passes(low, high), in_blocks=not is_single)


def makes_swish(chain: Sequence[NodeView], after: NodeView) -> bool:
    """Return whether a Sigmoid is multiplied by its own input: that is a swish, which has no op."""
    if len(chain) > 1 or (after.package, after.op_type) != (STANDARD, "ElementWiseMultiply"):
        return False
    (x,), result = chain[0].node.inputs, after.outs[0]
    # then all have one shape; empty tensors are left to the reference
    return x in after.node.inputs and result.dtype is DType.FLOAT_32 and 0 not in result.shape


@KERNELS.register(STANDARD, "Sigmoid", can_fuse=makes_swish)
def sigmoid(call: KernelCall) -> Step | None:
    """Run Sigmoid, and the product with its own input where that follows."""
    if not is_float32(call):
        return None
    if call.fused:
        return flat_step(call, swish_passes, scratchpads=1)
    return flat_step(call, sigmoid_passes)


@KERNELS.register(STANDARD, "Tanh")
def tanh(call: KernelCall) -> Step | None:
    """Run Tanh."""
    return flat_step(call, tanh_passes, in_blocks=False) if is_float32(call) else None


@KERNELS.register(STANDARD, "Gelu")
def gelu(call: KernelCall) -> Step | None:
    """Run Gelu in its exact form."""
    return flat_step(call, gelu_passes, scratchpads=3) if is_float32(call) else None


@KERNELS.register(STANDARD, "HardSwish")
def hard_swish(call: KernelCall) -> Step | None:
    """Run HardSwish."""
    return flat_step(call, hard_swish_passes, scratchpads=1) if is_float32(call) else None


@KERNELS.register(STANDARD, "Elu")
def elu(call: KernelCall) -> Step | None:
    """Run Elu."""
    return flat_step(call, elu_passes(call.op.alpha), scratchpads=1) if is_float32(call) else None


@KERNELS.register(STANDARD, "ElementWiseSoftplus")
def softplus(call: KernelCall) -> Step | None:
    """Run ElementWiseSoftplus with beta 1."""
    return _softplus(call, call.op.beta, call.op.threshold) if is_float32(call) else None


def _softplus(call: KernelCall, beta: float, threshold: float) -> Step | None:
    if beta != 1 or 0 <= threshold < _LINEAR:
        return None
    return flat_step(call, softplus_passes, scratchpads=3)


@KERNELS.register(STANDARD, "ElementWiseNeuron")
def neuron(call: KernelCall) -> Step | None:
    """Run ElementWiseNeuron."""
    op = call.op
    if not is_float32(call):
        return None
    limits = clip_of(call.head)
    if limits is not None:
        return _clipped(call, *limits)
    match op.operation.name:
        case "ELU":
            return flat_step(call, elu_passes(_given(op.alpha, 1.0)), scratchpads=1)
        case "GELU":
            return flat_step(call, gelu_passes, scratchpads=3)
        case "HARD_SIGMOID":
            passes = hard_sigmoid_passes(_given(op.alpha, 0.2), _given(op.beta, 0.5))
            return flat_step(call, passes)
        case "HARD_SWISH":
            return flat_step(call, hard_swish_passes, scratchpads=1)
        case "SIGMOID":
            return flat_step(call, sigmoid_passes)
        case "SOFTPLUS":
            return _softplus(call, _given(op.beta, 1.0), _given(op.threshold, -1.0))
        case "TANH":
            return flat_step(call, tanh_passes, in_blocks=False)
    return None


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


@KERNELS.register(STANDARD, "Prelu")
def prelu(call: KernelCall) -> Step | None:
    """Run Prelu with one constant slope, or one for each element of the last axis."""
    if not is_float32(call):
        return None
    x, slope = call.spec(0).shape, call.spec(1).shape
    fixed = call.static(1)
    if fixed is not None and fixed.size == 1:
        return flat_step(call, leak_passes(float(fixed.reshape(()))), scratchpads=1)
    return _prelu_by_column(call) if math.prod(slope) == slope[-1] == x[-1] else None


def leak_passes(slope: float) -> Passes:
    """Return the passes of x where x is not negative, else slope * x."""
    factor = constant(slope)

    def passes(x: Array, out: Array, below: Array) -> Iterator[Call]:
        if 0 < slope <= 1:
            yield ufunc(np.multiply, x, factor, below)
            yield ufunc(np.maximum, x, below, out)
            return
        yield from clip_between(x, -math.inf, 0, below)
        yield ufunc(np.multiply, below, factor, below)
        yield from clip_between(x, 0, math.inf, out)
        yield ufunc(np.add, out, below, out)

    return passes


def _prelu_by_column(call: KernelCall) -> Step:
    """Return the step of max(x, 0) + slope * min(x, 0), a block of rows at a time."""
    shape = call.spec(0).shape
    height, width = math.prod(shape[:-1]), shape[-1]
    most = min(max(1, block_size(height * width) // width), height)
    slope, x, out = call.read(1), call.read(0), call.write()
    pad = scratch_floats(call, most * width)

    def bind(buffers: Buffers) -> Bound:
        rows, results = (buffers.array(v).reshape(height, width) for v in (x, out))
        slopes, spare = buffers.array(slope).reshape(width), floats(buffers, pad)
        calls: list[Call] = []
        for block in blocks(height, most):
            part, result = rows[block], results[block]
            below = spare[: part.size].reshape(part.shape)
            calls += [
                *clip_between(part, -math.inf, 0, below),
                ufunc(np.multiply, below, slopes, below),
                *clip_between(part, 0, math.inf, result),
                ufunc(np.add, result, below, result),
            ]
        return call_sequence(calls)

    return call.step(bind, in_place=[(0, 1)])
