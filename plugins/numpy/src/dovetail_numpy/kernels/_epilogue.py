"""Epilogues: the bias and the fused nodes that follow a matrix product or convolution in one step.

They are applied to each block right after it was computed, while it is in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dovetail.ir import Array, DType
from dovetail.ops import NodeView
from dovetail.runtime.plan import Buffers, KernelCall, Tail, Value
from dovetail_numpy.kernels._calls import BLOCK, Call, Floats, blocks, clip_between, ufunc
from dovetail_numpy.kernels._flat import Passes
from dovetail_opset import STANDARD

# A shorter bias is repeated to about this length: one long addition is faster than many short ones.
_TILE = 2048
Clip = tuple[float | None, float | None]


def can_fuse(chain: Sequence[NodeView], after: NodeView) -> bool:
    """Return whether a node can be fused: a clipping activation or an addition of equal shapes."""
    specs = [s for s in (*after.ins, *after.outs) if s is not None]
    if after.package != STANDARD or any(s.dtype is not DType.FLOAT_32 for s in specs):
        return False
    if after.op_type == "ElementWiseAdd":
        return all(s.shape == after.outs[0].shape for s in specs)
    return clip_of(after) is not None


def clip_of(view: NodeView) -> Clip | None:
    """Return the bounds of an activation that only clips, else None."""
    op = view.op
    match view.op_type:
        case "Relu":
            return 0.0, None
        case "Relu1":
            return -1.0, 1.0
        case "Relu6":
            return 0.0, 6.0
        case "ReluMinMax":
            return op.min_value, op.max_value
        case "ElementWiseNeuron":
            match op.operation.name:
                case "RELU":
                    return 0.0, None
                case "RELU_MIN_MAX":
                    return op.min_value, op.max_value
    return None


def clip_passes(low: float | None, high: float | None) -> Passes:
    """Return the passes of max(x, low), then min(x, high)."""
    lower = -math.inf if low is None else low
    upper = math.inf if high is None else high

    def passes(x: Array, out: Array) -> Iterator[Call]:
        yield from clip_between(x, lower, upper, out)

    return passes


class Epilogue:
    """The bias and the fused nodes of a call, for results seen as rows of channels.

    Args:
        call: The other operands of its fused nodes are declared as read here.
        bias: Index of the bias among the inputs, which may be missing.
    """

    def __init__(self, call: KernelCall, bias: int) -> None:
        self._bias = call.read(bias) if call.has(bias) else None
        fixed = call.static(bias)
        self._tile = None if fixed is None else _tiled(fixed)
        self._stages = [_stage(call, tail) for tail in call.fused]

    def bind(self, buffers: Buffers, channels: int) -> Callable[[Array, int], list[Call]]:
        """Return a function that returns the calls for some rows of the result.

        Args:
            buffers: The buffers of the values.
            channels: Elements of a row.

        Returns:
            A function of the rows, (rows, channels), and the index of the first one.
        """
        bias = None if self._bias is None else buffers.array(self._bias)
        stages = [
            buffers.array(stage).reshape(-1, channels) if isinstance(stage, Value) else stage
            for stage in self._stages
        ]
        rows_at_once = max(1, BLOCK // channels)
        if self._tile is not None:
            unit = self._tile.size // channels
            rows_at_once = -(-rows_at_once // unit) * unit

        def calls(out: Array, first: int) -> list[Call]:
            found: list[Call] = []
            if bias is None and not stages:
                return found
            for rows in blocks(len(out), rows_at_once):
                part = out[rows]
                if bias is not None:
                    found += _bias_calls(part, bias if self._tile is None else self._tile)
                for stage in stages:
                    if isinstance(stage, np.ndarray):
                        other = stage[first + rows.start : first + rows.stop]
                        found.append(ufunc(np.add, part, other, part))
                    else:
                        found += stage(part, part)
            return found

        return calls


def _stage(call: KernelCall, tail: Tail) -> Passes | Value:
    """Return the passes of a fused activation, or the other operand of an addition."""
    limits = clip_of(tail.view)
    if limits is not None:
        return clip_passes(*limits)
    (other,) = (i for i in tail.operands if i is not None)
    return call.read(other)


def _tiled(bias: Array) -> Floats:
    return np.tile(bias, max(1, _TILE // bias.size))


def _bias_calls(out: Array, bias: Array) -> Iterator[Call]:
    """Yield the calls that add a bias, perhaps repeated for several rows, to (rows, channels)."""
    rows, channels = out.shape
    unit = bias.size // channels
    whole = rows // unit * unit
    if unit == 1 or not out.flags.c_contiguous:
        yield ufunc(np.add, out, bias[:channels], out)
        return
    if whole:
        many = out[:whole].reshape(-1, bias.size)
        yield ufunc(np.add, many, bias, many)
    if whole < rows:
        rest = out[whole:]
        yield ufunc(np.add, rest, bias[:channels], rest)
