"""Sums, means and average pools of up to 16 bits: exact sums in int32, rounded block by block.

The operations on sums and their order are those of the definition, in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.grid import is_single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.integer.sums import sum_rescale
from dovetail_numpy.kernels._calls import Call, block_size, blocks, copy, fill
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels._taps import Axis
from dovetail_numpy.kernels.byte_rows import positions_per_row
from dovetail_numpy.kernels.wide import BLOCK, rounded
from dovetail_opset import STANDARD

_INT, _FLOAT = np.dtype(np.int32), np.dtype(np.float32)
# Elements of a sum, and distance of the zero point: the sums of levels have 32 bits.
_MOST = 1 << 14


@KERNELS.register(STANDARD, "PoolAvg2d", quantized=True)
@KERNELS.register(STANDARD, "PoolAvg3d", quantized=True)
def pool_avg(call: KernelCall) -> Step | None:
    """Run PoolAvg2d and PoolAvg3d: sums along one axis after the other."""
    x, op = call.spec(0).shape, call.op
    axes = [
        Axis(size, outputs, int(taps), int(stride), 1, int(before))
        for size, outputs, taps, stride, (before, _) in zip(
            x[1:-1],
            call.outputs[0].shape[1:-1],
            op.filter_size,
            op.stride,
            op.pad_amount,
            strict=True,
        )
    ]
    size = math.prod(axis.taps for axis in axes)
    if not _is_supported(call, size):
        return None
    inside = np.ones((), np.int32)
    for axis in axes:
        inside = np.multiply.outer(inside, np.array(axis.counts(), np.int32))
    counts = np.asarray(size) if op.count_pad_for_edges else np.maximum(inside, 1)
    if all(axis.outputs == 1 and axis.counts() == [axis.size] for axis in axes):
        outer, inner = x[0], x[-1]
        return _reduced(call, (outer, math.prod(x[1:-1]), inner), int(counts.reshape(-1)[0]))
    return _pooled(call, axes, inside, counts)


@KERNELS.register(STANDARD, "ReduceMean", quantized=True)
@KERNELS.register(STANDARD, "ReduceSum", quantized=True)
def reduced(call: KernelCall) -> Step | None:
    """Run ReduceMean and ReduceSum along adjacent axes."""
    shape, axes = call.spec(0).shape, sorted(int(axis) for axis in call.op.axes)
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return None
    ends = axes[0], axes[-1] + 1
    outer, size, inner = (
        math.prod(part) for part in (shape[: ends[0]], shape[slice(*ends)], shape[ends[1] :])
    )
    if not _is_supported(call, size):
        return None
    return _reduced(call, (outer, size, inner), size if call.head.op_type == "ReduceMean" else 1)


def _is_supported(call: KernelCall, size: int) -> bool:
    """Return whether sums of so many elements have 32 bits, and float32 holds all levels."""
    specs = call.spec(0), call.outputs[0].spec
    return (
        DEFINITIONS.of(call.head) is not None
        and all(0 not in spec.shape and is_single(spec) for spec in specs)
        and 0 < size <= _MOST
        and abs(grid_of(specs[0])[1]) <= 1 << 16
    )


def _reduced(call: KernelCall, shape: tuple[int, int, int], count: int) -> Step:
    """Return the step that adds along the middle axis and divides by a number."""
    outer, size, inner = shape
    repeats = positions_per_row(size, inner) if inner > 1 else 1
    x, out = call.read(0), call.write()
    finish = _Rounding(call, np.asarray(count), np.asarray(size))
    sums = call.scratch(_INT.itemsize * outer * inner)
    wide = call.scratch(_INT.itemsize * outer * repeats * inner) if repeats > 1 else sums
    pad = call.scratch(finish.nbytes)

    def bind(buffers: Buffers) -> Bound:
        rows = buffers.array(x).reshape(outer, size // repeats, repeats * inner)
        found, part = (buffers.array(v).view(_INT).reshape(outer, -1) for v in (sums, wide))
        calls: list[Call] = [partial(np.add.reduce, rows, axis=1, dtype=_INT, out=part)]
        if repeats > 1:
            several = part.reshape(outer, repeats, inner)
            calls.append(partial(np.add.reduce, several, axis=1, out=found))
        return call_sequence([*calls, *finish.calls(found, buffers.array(out), buffers.array(pad))])

    return call.step(bind)


def _pooled(call: KernelCall, axes: Sequence[Axis], inside: Array, counts: Array) -> Step:
    """Return the step of sums along windows of several axes.

    Args:
        call: The call.
        axes: The spatial axes.
        inside: Numbers of elements of the input in each window, of the spatial shape.
        counts: The divisors, one or one for each window.
    """
    x, out = call.read(0), call.write()
    shapes = [tuple(x.spec.shape)]
    for at, axis in enumerate(axes, 1):
        shapes.append((*shapes[-1][:at], axis.outputs, *shapes[-1][at + 1 :]))
    pads = [call.scratch(_INT.itemsize * math.prod(shape)) for shape in shapes]
    per_window = (*inside.shape, 1)
    divisors = counts if counts.ndim == 0 else counts.reshape(per_window)
    finish = _Rounding(call, divisors, inside.reshape(per_window))
    pad = call.scratch(finish.nbytes)

    def bind(buffers: Buffers) -> Bound:
        arrays = [
            buffers.array(v).view(_INT).reshape(shape)
            for v, shape in zip(pads, shapes, strict=True)
        ]
        calls: list[Call] = [copy(arrays[0], buffers.array(x))]
        for at, axis in enumerate(axes, 1):
            calls += _summed(axis, arrays[at - 1], arrays[at], at)
        rows = buffers.array(out)
        for found, into in zip(arrays[-1], rows, strict=True):
            calls += finish.calls(found, into, buffers.array(pad))
        return call_sequence(calls)

    return call.step(bind)


def _summed(axis: Axis, source: Array, target: Array, at: int) -> list[Call]:
    """Return the calls that add windows along one axis."""
    lead = (slice(None),) * at
    found = (axis.inside(tap, slice(0, axis.outputs)) for tap in range(axis.taps))
    parts = [(target[(*lead, to)], source[(*lead, of)]) for to, of in filter(None, found)]
    # a tap inside the input for each window can write where others add
    parts.sort(key=lambda part: part[0].shape != target.shape)
    calls: list[Call] = []
    if parts and parts[0][0].shape == target.shape:
        calls.append(copy(*parts.pop(0)))
    else:
        calls.append(fill(target, np.zeros((), target.dtype)))
    return [*calls, *(partial(np.add, to, of, out=to) for to, of in parts)]


class _Rounding:
    """The calls from exact sums of stored integers to stored means.

    Args:
        call: Its first input is the data.
        counts: The divisors, one or of the shape (*spatial, 1).
        inside: The numbers of elements added, as `counts`.
    """

    def __init__(self, call: KernelCall, counts: Array, inside: Array) -> None:
        rescale, zero = sum_rescale(call.head, counts.astype(np.float64)), grid_of(call.spec(0))[1]
        if rescale is None:
            raise AssertionError("sums that float32 does not rescale")
        self._grid = 1.0, rescale.zero, rescale.limits
        self._factors = _even(rescale.multiplier)
        self._zeros = _even(np.asarray(inside * zero, _INT))
        shape = call.outputs[0].shape
        self._is_even = not self._factors.ndim and not self._zeros.ndim
        row = 1 if self._is_even else math.prod(shape[2:])
        self._size = max(block_size(math.prod(shape), BLOCK), row)

    @property
    def nbytes(self) -> int:
        """Size of the scratchpad."""
        return self._size * _FLOAT.itemsize

    def calls(self, sums: Array, out: Array, scratch: Array) -> list[Call]:
        """Return the calls for all sums, or for those of one image, (*spatial, c)."""
        if self._is_even:
            sums, out = sums.reshape(-1), out.reshape(-1)
        pad = scratch.view(_FLOAT)
        zeros, factors = (
            v if v.ndim == 0 else np.broadcast_to(v, out.shape)
            for v in (self._zeros, self._factors)
        )
        calls: list[Call] = []
        for block in blocks(len(out), self._size // out[0].size):
            into = out[block]
            levels, real = sums[block], pad[: into.size].reshape(into.shape)
            if zeros.any():
                part = zeros if zeros.ndim == 0 else zeros[block]
                calls.append(partial(np.subtract, levels, part, out=levels))
            calls.append(copy(real, levels))
            part = factors if factors.ndim == 0 else factors[block]
            calls.append(partial(np.multiply, real, part, out=real))
            calls += rounded(real, into, self._grid)
        return calls


def _even(values: Array) -> Array:
    """Return one number where all are equal."""
    first = values.reshape(-1)[0]
    return np.asarray(first) if (values == first).all() else values
