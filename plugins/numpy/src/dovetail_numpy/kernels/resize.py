"""Resizing, axis by axis and tap by tap over blocks; nearest elements by one gather or copies."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Shape
from dovetail.ops import Domain
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.grid import is_all_levels
from dovetail_numpy.integer.interpolation import interpolation_rescale
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import (
    BLOCK,
    Call,
    block_size,
    blocks,
    copy,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_float32, only_moves
from dovetail_numpy.kernels.wide import rounded, with_number
from dovetail_opset import STANDARD
from dovetail_opset.resampling import Taps

Axes = dict[int, Taps]
Tap = tuple[NDArray[np.intp], Array | None]

# With at most this many elements after an axis, weights are repeated for each of them: NumPy's
# inner loop then runs over whole lines.
_NARROW = 32
_DOUBLE = 8  # bytes


@KERNELS.register(STANDARD, "Resize", quantized=True)
@KERNELS.register(STANDARD, "ResizeBilinear", quantized=True)
@KERNELS.register(STANDARD, "ResizeNearestNeighbor", quantized=True)
@KERNELS.register(STANDARD, "Resize")
@KERNELS.register(STANDARD, "ResizeBilinear")
@KERNELS.register(STANDARD, "ResizeNearestNeighbor")
def resize(call: KernelCall) -> Step | None:
    """Run any resize with the op's taps, axis by axis as in the reference."""
    old, new = call.spec(0).shape, call.outputs[0].shape
    if 0 in old or 0 in new:
        return None
    axes: Axes = call.op.taps_by_axis(old, new)
    if all(taps.weights is None for taps in axes.values()):
        is_move = call.head.definition[0].domain is Domain.MOVE or call.spec(0).encoding is None
        moves = only_moves(call, 0) and (is_move or is_all_levels(call.spec(0)))
        return _moved(call, axes) if moves else None
    return _weighted(call, axes) if is_float32(call) else _weighted_levels(call, axes)


def _moved(call: KernelCall, axes: Axes) -> Step:
    """Return the step of a resize that only copies elements."""
    old, new = call.spec(0).shape, call.outputs[0].shape
    spatial = range(1, len(old) - 1)
    lines = [axes[i].indices[:, 0] if i in axes else np.arange(old[i]) for i in spatial]
    factors = [_factor(line, size) for line, size in zip(lines, old[1:-1], strict=True)]
    x, out = call.read(0), call.write()
    if all(factors):
        return call.step(lambda buffers: _repeated(buffers.array(x), buffers.array(out), factors))
    indices = np.ravel_multi_index(np.ix_(*lines), old[1:-1]).reshape(-1)

    def bind(buffers: Buffers) -> Bound:
        images = buffers.array(x).reshape(old[0], -1, old[-1])
        result = buffers.array(out).reshape(new[0], -1, new[-1])
        # the indices are in range; mode="raise" would gather into a copy of the result first
        return functools.partial(images.take, indices, 1, result, "clip")

    return call.step(bind)


def _factor(line: NDArray[np.intp], size: int) -> int:
    """Return how often each element of an axis is repeated; 0 if that differs between elements."""
    factor = len(line) // size
    repeated = np.repeat(np.arange(size), factor)
    return factor if len(repeated) == len(line) and bool((repeated == line).all()) else 0


def _repeated(x: Array, out: Array, factors: Sequence[int]) -> Bound:
    """Return the call that repeats elements along each axis by copies.

    The last axis comes first, so that all other copies are of whole rows.
    """
    sizes = zip(x.shape[1:-1], factors, strict=True)
    found = out.reshape(x.shape[0], *(n for pair in sizes for n in pair), x.shape[-1])
    last = len(factors) - 1
    calls: list[Call] = []
    for axis in range(last, -1, -1):
        # on the axes before, only the first of equal elements has been written
        before = (slice(None), *(slice(None), 0) * axis, slice(None))
        if axis == last:
            calls.append(copy(found[before], x[..., None, :]))
        elif factors[axis] > 1:
            calls.append(copy(found[(*before, slice(1, None))], found[(*before, slice(1))]))
    return call_sequence(calls)


@dataclass(frozen=True, slots=True)
class _Pass:
    """The resampling of one axis.

    Attributes:
        before, size, after: Number of elements before, on and after the axis.
        taps: Indices and weights of the new elements.
    """

    before: int
    size: int
    after: int
    taps: Taps

    @property
    def shape(self) -> Shape:
        """Shape of the result."""
        return self.before, len(self.taps.indices), self.after

    @property
    def block(self) -> int:
        """Elements of the result per block: whole lines of the axis, or whole parts after it."""
        line = self.shape[1] * self.after
        unit = line if line <= BLOCK else self.after
        return max(block_size(math.prod(self.shape)) // unit, 1) * unit

    def calls(self, source: Array, result: Array, spare: Array) -> Iterator[Call]:
        """Return the calls, which use a scratchpad of one block."""
        each_tap = self.each_tap(result.dtype)
        for where, rows in self.parts():
            yield from _sums(each_tap, source[where], rows, result[where, rows], spare)

    def parts(self) -> Iterator[tuple[slice, slice]]:
        """Yield the blocks: slices of the elements before the axis, and of the new ones on it."""
        new = self.shape[1]
        if self.block >= new * self.after:
            for where in blocks(self.before, self.block // (new * self.after)):
                yield where, slice(new)
            return
        for i in range(self.before):
            for rows in blocks(new, self.block // self.after):
                yield slice(i, i + 1), rows

    def each_tap(self, kind: np.dtype[Any]) -> list[Tap]:
        """Return the indices and weights, (new, 1) or (new, after), tap by tap."""
        found: list[Tap] = []
        for k, indices in enumerate(self.taps.indices.T):
            weights: Array | None = None
            if self.taps.weights is not None and not (self.taps.weights == 1).all():
                weights = self.taps.weights[:, k, None].astype(kind)
                if self.after < _NARROW:
                    weights = weights.repeat(self.after, axis=1)
            found.append((np.ascontiguousarray(indices), weights))
        return found


def _sums(
    each_tap: Sequence[Tap], x: Array, rows: slice, out: Array, spare: Array
) -> Iterator[Call]:
    """Return the calls for a block of a pass, with its taps; see `_Pass.calls`."""
    other = spare[: out.size].reshape(out.shape)
    for k, (indices, weights) in enumerate(each_tap):
        target = other if k else out
        # the indices are in range; mode="raise" would gather into a copy first
        yield functools.partial(x.take, indices[rows], 1, target, "clip")
        if weights is not None:
            yield ufunc(np.multiply, target, weights[rows], target)
        if k:
            yield ufunc(np.add, out, other, out)


def _passes(call: KernelCall, axes: Axes) -> list[_Pass]:
    passes = []
    shape = call.spec(0).shape
    for axis, taps in axes.items():
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        passes.append(_Pass(before, shape[axis], after, taps))
        shape = (*shape[:axis], len(taps.indices), *shape[axis + 1 :])
    return passes


def _weighted(call: KernelCall, axes: Axes) -> Step:
    """Return the step of weighted sums: a pass for each axis, with scratchpads between."""
    passes = _passes(call, axes)
    x, out = call.read(0), call.write()
    between = [scratch_floats(call, math.prod(p.shape)) for p in passes[:-1]]
    spare = scratch_floats(call, max(p.block for p in passes))

    def bind(buffers: Buffers) -> Bound:
        calls: list[Call] = []
        source = buffers.array(x)
        targets = [*(floats(buffers, value) for value in between), buffers.array(out)]
        for step, target in zip(passes, targets, strict=True):
            result = target.reshape(-1)[: math.prod(step.shape)].reshape(step.shape)
            lines = source.reshape(step.before, step.size, step.after)
            calls += step.calls(lines, result, floats(buffers, spare))
            source = result
        return call_sequence(calls)

    return call.step(bind)


def _weighted_levels(call: KernelCall, axes: Axes) -> Step | None:
    """Return the step of weighted sums of levels in float64; None if there is no formula for them.

    The last pass rescales its sums a block at a time.
    """
    rescale, spec = interpolation_rescale(call.head), call.spec(0)
    if rescale is None or DEFINITIONS.of(call.head) is None:
        return None
    (*first, last), zero = _passes(call, axes), grid_of(spec)[1]
    most = max(p.block for p in (*first, last))
    x, out = call.read(0), call.write()
    counts = [math.prod(spec.shape), *(math.prod(p.shape) for p in first), most, most]
    doubles = [call.scratch(count * _DOUBLE) for count in counts]
    singles = scratch_floats(call, most)

    def bind(buffers: Buffers) -> Bound:
        *arrays, spare, sums = (buffers.array(value).view(np.float64) for value in doubles)
        stored, result, real = buffers.array(x), buffers.array(out), floats(buffers, singles)
        source = arrays[0][: stored.size]
        calls: list[Call] = [copy(source, stored.reshape(-1))]
        calls += [with_number(np.subtract, source, zero)] if zero else []
        for step, target in zip(first, arrays[1:], strict=True):
            made = target[: math.prod(step.shape)].reshape(step.shape)
            calls += step.calls(source.reshape(step.before, step.size, step.after), made, spare)
            source = made
        lines, results = (
            source.reshape(last.before, last.size, last.after),
            result.reshape(last.shape),
        )
        each_tap = last.each_tap(source.dtype)
        for where, rows in last.parts():
            into = results[where, rows]
            found, v = (pad[: into.size].reshape(into.shape) for pad in (sums, real))
            calls += _sums(each_tap, lines[where], rows, found, spare)
            calls.append(functools.partial(np.copyto, v, found, casting="same_kind"))
            calls.append(with_number(np.multiply, v, float(rescale.multiplier)))
            calls += rounded(v, into, (1.0, rescale.zero, rescale.limits))
        return call_sequence(calls)

    return call.step(bind)
