"""Pooling, tap by tap over whole rows of outputs; volumes first along the depth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.integer.grid import is_all_levels
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import MOST_BLOCKS, Call, blocks, constant, copy, ufunc
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels._taps import Axis, patches, view_of
from dovetail_numpy.kernels.conditions import is_float32, only_moves
from dovetail_opset import STANDARD

# Floats of the result computed at a time: 128 kB, see `_depthwise`.
_BLOCK = 32768


@dataclass(frozen=True, slots=True)
class _Pool:
    """A pooling of (n, d, h, w, c), plane by plane of the result; an image is one plane.

    Attributes:
        depth, height, width: The axes.
        combine: Function of two taps; commutative and associative.
        start: Initial outputs, (d, h, w, 1), used where no tap covers all outputs.
        divisor: Divisor of the outputs, (d, h, w, 1), (), or None.
        needs_start: Whether `start` is used in any case.
    """

    depth: Axis
    height: Axis
    width: Axis
    combine: Callable[..., Any]
    start: Array
    divisor: Array | None = None
    needs_start: bool = False

    def step(self, call: KernelCall) -> Step:
        """Return the step."""
        out_spec = call.outputs[0].spec
        plane = self.height.size * self.width.size * out_spec.shape[-1]
        needed = plane * out_spec.dtype.storage.itemsize
        joined = call.scratch(needed) if self.depth.taps > 1 else None
        x, out = call.read(0), call.write()

        def bind(buffers: Buffers) -> Bound:
            return self._bound(buffers, x, out, joined)

        return call.step(bind)

    def _bound(self, buffers: Buffers, x: Value, out: Value, joined: Value | None) -> Bound:
        axes = (self.depth, self.height, self.width)
        channels = buffers.array(out).shape[-1]
        images = buffers.array(x).reshape(-1, *(a.size for a in axes), channels)
        results = buffers.array(out).reshape(-1, *(a.outputs for a in axes), channels)
        count = len(images) * self.depth.outputs * self.height.outputs
        most = max(_BLOCK // (self.width.outputs * channels), -(-count // MOST_BLOCKS), 1)
        scratch = None
        if joined is not None:
            scratch = buffers.array(joined).view(images.dtype).reshape(images.shape[2:])
        calls: list[Call] = []
        for image, result in zip(images, results, strict=True):
            for z, plane in enumerate(result):
                source = self._joined(image, z, scratch, calls)
                if source is None:
                    calls.append(copy(plane, np.broadcast_to(self.start[z], plane.shape)))
                    continue
                for rows in blocks(len(plane), min(most, len(plane))):
                    calls += self._block(source, plane, z, rows)
        return call_sequence(calls)

    def _joined(
        self, image: Array, z: int, scratch: Array | None, calls: list[Call]
    ) -> Array | None:
        """Return the combination of the planes in the windows at z; None if there are none."""
        taps = (self.depth.inside(tap, slice(z, z + 1)) for tap in range(self.depth.taps))
        planes = [image[there.start] for _, there in filter(None, taps)]
        if len(planes) < 2 or scratch is None:
            return planes[0] if planes else None
        calls.append(ufunc(self.combine, planes[0], planes[1], scratch))
        calls += [ufunc(self.combine, scratch, plane, scratch) for plane in planes[2:]]
        return scratch

    def _block(self, image: Array, result: Array, z: int, rows: slice) -> list[Call]:
        found = patches(self.height, self.width, rows)
        covered = bool(found) and found[0].covers(rows, self.width.outputs)
        calls: list[Call] = []
        if self.needs_start or not covered:
            start = np.broadcast_to(self.start[z, rows], result[rows].shape)
            calls.append(copy(result[rows], start))
        for i, patch in enumerate(found):
            inputs = view_of(image, patch.in_rows, patch.in_cols)
            target = view_of(result, patch.out_rows, patch.out_cols).reshape(inputs.shape)
            if i == 0 and not calls:
                calls.append(copy(target, inputs))
            else:
                calls.append(ufunc(self.combine, target, inputs, target))
        if self.divisor is not None:
            part = result[rows]
            divisor = self.divisor if self.divisor.ndim == 0 else self.divisor[z, rows]
            calls.append(ufunc(np.divide, part, divisor, part))
        return calls


@KERNELS.register(STANDARD, "PoolMax2d", quantized=True)
@KERNELS.register(STANDARD, "PoolMax2d")
@KERNELS.register(STANDARD, "PoolMax3d", quantized=True)
@KERNELS.register(STANDARD, "PoolMax3d")
def pool_max(call: KernelCall) -> Step | None:
    """Run PoolMax2d and PoolMax3d; the padding holds 0, and elements beyond it do not count."""
    storage = call.outputs[0].dtype.storage
    lowest, zero = -math.inf, 0
    if not is_float32(call):
        if not only_moves(call, 0) or not is_all_levels(call.spec(0)):
            return None
        # the maximum of real values is that of the stored integers
        _, zero, (lowest, highest) = grid_of(call.spec(0))
        zero = min(max(zero, lowest), highest)
    axes = _axes(call)
    ends = [0] * (3 - len(call.op.pad_amount)) + [int(pads[1]) for pads in call.op.pad_amount]
    inside = _product(*(a.counts() for a in axes))
    padded = _product(*(a.padded(end) for a, end in zip(axes, ends, strict=True)))
    # the maximum of a window wholly beyond the padding is 0
    is_free = (inside == padded) & (padded > 0)
    start = np.where(is_free, lowest, zero).astype(storage)
    return _Pool(*axes, np.maximum, start, needs_start=not is_free.all()).step(call)


@KERNELS.register(STANDARD, "PoolAvg2d")
@KERNELS.register(STANDARD, "PoolAvg3d")
def pool_avg(call: KernelCall) -> Step | None:
    """Run PoolAvg2d and PoolAvg3d: sums, divided by the number of elements in each window."""
    if not is_float32(call):
        return None
    axes = _axes(call)
    counts = _product(*(a.counts() for a in axes))
    if call.op.count_pad_for_edges:
        counts = np.full_like(counts, math.prod(a.taps for a in axes))
    divisor = np.maximum(counts, 1).astype(np.float32)
    is_global = not call.op.pad_amount.any() and all(a.outputs == 1 for a in axes)
    if is_global and all(a.taps == a.size for a in axes):
        return _global_average(call, float(divisor.item()))
    start = np.zeros(divisor.shape, np.float32)
    if (divisor == divisor[0, 0, 0]).all():
        divisor = constant(float(divisor[0, 0, 0, 0]))
    return _Pool(*axes, np.add, start, divisor).step(call)


def _global_average(call: KernelCall, count: float) -> Step:
    divisor = constant(count)
    n, *spatial, channels = call.spec(0).shape

    def run(x: Array, out: Array) -> None:
        means = out.reshape(n, channels)
        np.add.reduce(x.reshape(n, math.prod(spatial), channels), axis=1, out=means)
        np.divide(means, divisor, means)

    call.read(0)
    call.write()
    return call.array_step(run)


def _axes(call: KernelCall) -> tuple[Axis, Axis, Axis]:
    """Return the axes depth, height and width; an image has depth 1."""
    op, x, out = call.op, call.spec(0).shape, call.outputs[0].shape
    found = [
        Axis(size, outputs, int(taps), int(stride), 1, int(before))
        for size, outputs, taps, stride, (before, _) in zip(
            x[1:-1], out[1:-1], op.filter_size, op.stride, op.pad_amount, strict=True
        )
    ]
    height, width = found[-2:]
    return found[0] if len(found) == 3 else Axis(1, 1, 1, 1, 1, 0), height, width


def _product(depth: list[int], height: list[int], width: list[int]) -> Array:
    """Return the number of elements of windows, (d, h, w, 1), from those along each axis."""
    planes = np.array(depth)[:, None, None, None] * np.array(height)[:, None, None]
    found: Array = planes * np.array(width)[:, None]
    return found
