"""Pooling: tap by tap, over whole rows of outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value
from dovetail_cpu.kernels._calls import (
    MOST_BLOCKS,
    Call,
    blocks,
    constant,
    copy,
    in_order,
    is_float32,
    ufunc,
)
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE
from dovetail_cpu.kernels._taps import Axis, patches, view_of

# Floats of a result at a time: 128 kB, see `_depthwise`.
_BLOCK = 32768


@dataclass(frozen=True, slots=True)
class _Pool:
    """A pooling of (n, h, w, c).

    Attributes:
        combine: Joins what two taps give.
        start: What outputs hold before the first tap where no tap meets all of them, (oh, ow, 1).
        divisor: What outputs are divided by, (oh, ow, 1), one for all, or None.
        needs_start: Whether outputs must begin with `start` in any case.
    """

    height: Axis
    width: Axis
    combine: Callable[..., Any]
    start: Array
    divisor: Array | None = None
    needs_start: bool = False

    def step(self, call: KernelCall) -> Step:
        """Gives the step."""
        x, out = call.read(0), call.write()

        def bind(buffers: Buffers) -> Bound:
            return self._bound(buffers, x, out)

        return call.step(bind)

    def _bound(self, buffers: Buffers, x: Value, out: Value) -> Bound:
        images, results = buffers.array(x), buffers.array(out)
        n, height, width, channels = results.shape
        most = max(_BLOCK // (width * channels), -(-n * height // MOST_BLOCKS), 1)
        calls: list[Call] = []
        for image, result in zip(images, results, strict=True):
            for rows in blocks(height, min(most, height)):
                calls += self._block(image, result, rows)
        return in_order(calls)

    def _block(self, image: Array, result: Array, rows: slice) -> list[Call]:
        found = patches(self.height, self.width, rows)
        covered = bool(found) and found[0].covers(rows, self.width.outputs)
        calls: list[Call] = []
        if self.needs_start or not covered:
            start = np.broadcast_to(self.start[rows], result[rows].shape)
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
            divisor = self.divisor if self.divisor.ndim == 0 else self.divisor[rows]
            calls.append(ufunc(np.divide, part, divisor, part))
        return calls


@KERNELS.register(PACKAGE, "PoolMax2d")
def pool_max_2d(call: KernelCall) -> Step | None:
    """PoolMax2d: the padding holds 0, what lies beyond it takes no part."""
    if not is_float32(call):
        return None
    height, width = axes = _axes(call)
    ends = [int(pads[1]) for pads in call.op.pad_amount]
    inside = [np.array(a.counts()) for a in axes]
    padded = [np.array(a.padded(end)) for a, end in zip(axes, ends, strict=True)]
    whole = inside[0][:, None] * inside[1] == padded[0][:, None] * padded[1]
    # a window wholly beyond the padding has no elements and gives 0
    some = (padded[0][:, None] * padded[1]) > 0
    start = np.where(whole & some, np.float32(-np.inf), np.float32(0))[:, :, None]
    needs_start = not bool((whole & some).all())
    return _Pool(height, width, np.maximum, start, needs_start=needs_start).step(call)


@KERNELS.register(PACKAGE, "PoolAvg2d")
def pool_avg_2d(call: KernelCall) -> Step | None:
    """PoolAvg2d: sums, divided by how many elements each window has inside the input."""
    if not is_float32(call):
        return None
    height, width = _axes(call)
    counts = np.array(height.counts(), np.float32)[:, None] * np.array(width.counts(), np.float32)
    if call.op.count_pad_for_edges:
        counts = np.full_like(counts, height.taps * width.taps)
    divisor = np.maximum(counts, 1)[:, :, None]
    is_global = (height.outputs, width.outputs) == (1, 1) and not call.op.pad_amount.any()
    if is_global and (height.taps, width.taps) == (height.extent, width.extent):
        return _global_average(call, float(divisor[0, 0, 0]))
    if (divisor == divisor[0, 0]).all():
        divisor = constant(float(divisor[0, 0, 0]))
    start = np.zeros((height.outputs, width.outputs, 1), np.float32)
    return _Pool(height, width, np.add, start, divisor).step(call)


def _global_average(call: KernelCall, count: float) -> Step:
    divisor = constant(count)
    n, height, width, channels = call.spec(0).shape

    def run(x: Array, out: Array) -> None:
        means = out.reshape(n, channels)
        np.add.reduce(x.reshape(n, height * width, channels), axis=1, out=means)
        np.divide(means, divisor, means)

    call.read(0)
    call.write()
    return call.array_step(run)


def _axes(call: KernelCall) -> tuple[Axis, Axis]:
    op, x, out = call.op, call.spec(0).shape, call.outputs[0].shape
    rows, columns = (
        Axis(
            x[1 + i],
            out[1 + i],
            int(op.filter_size[i]),
            int(op.stride[i]),
            1,
            int(op.pad_amount[i][0]),
        )
        for i in range(2)
    )
    return rows, columns
