"""Normalization by batch item: over all positions, of one channel or of a group of channels."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import (
    Call,
    block_size,
    blocks,
    constant,
    copy,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels.conditions import is_float32


@dataclass(frozen=True, slots=True)
class _Item:
    """The normalization of the items of a batch, which are rows of channels.

    Attributes:
        height, width: Rows of an item, and channels.
        most: Rows of a block.
        groups: Number of groups of channels.
        epsilon: Added to the variance.
    """

    height: int
    width: int
    most: int
    groups: int
    epsilon: float

    def calls(
        self, x: Array, out: Array, spare: Array, totals: Array, factors: tuple[Array | None, ...]
    ) -> Iterator[Call]:
        """Yield the calls for one item.

        Args:
            x: (height, width).
            out: (height, width); may be the same array as x.
            spare: At least as many elements as a block.
            totals: (3, width).
            factors: Gamma and beta, (width,).
        """
        total, part, pooled = totals
        gamma, beta = factors
        parts = list(blocks(self.height, self.most))
        for block in parts:
            yield from self._added(x[block], total, part, is_first=block.start == 0)
        yield from self._mean_calls(total, pooled)
        yield ufunc(np.positive, total, pooled)
        for block in parts:
            squares = spare[: (block.stop - block.start) * self.width].reshape(-1, self.width)
            yield ufunc(np.subtract, x[block], pooled, out[block])
            yield ufunc(np.multiply, out[block], out[block], squares)
            yield from self._added(squares, total, part, is_first=block.start == 0)
        yield from self._mean_calls(total, pooled)
        yield ufunc(np.add, total, constant(self.epsilon), total)
        yield ufunc(np.sqrt, total, total)
        yield ufunc(np.divide, constant(1) if gamma is None else gamma, total, total)
        for block in parts:
            yield ufunc(np.multiply, out[block], total, out[block])
            if beta is not None:
                yield ufunc(np.add, out[block], beta, out[block])

    def _added(self, rows: Array, total: Array, part: Array, *, is_first: bool) -> Iterator[Call]:
        """Yield the calls that add rows to the total; sums by block are more exact than one."""
        target = total if is_first else part
        yield functools.partial(np.add.reduce, rows, 0, None, target)
        if not is_first:
            yield ufunc(np.add, total, part, total)

    def _mean_calls(self, total: Array, pooled: Array) -> Iterator[Call]:
        """Yield the calls that convert sums by channel into means, equal within a group."""
        size = self.width // self.groups
        if size > 1:
            grouped, each = total.reshape(self.groups, size), pooled[: self.groups]
            yield functools.partial(np.add.reduce, grouped, 1, None, each)
            yield copy(grouped, each[:, None])
        yield ufunc(np.divide, total, constant(self.height * size), total)


def item_norm(call: KernelCall, *, groups: int) -> Step | None:
    """Return the step of InstanceNorm or GroupNorm by mean and deviation; None if not float32.

    Args:
        call: Reads x, gamma and beta, writes the result.
        groups: Number of groups of channels; for InstanceNorm, the number of channels.
    """
    if not is_float32(call):
        return None
    shape = call.spec(0).shape
    height, width = math.prod(shape[1:-1]), shape[-1]
    most = min(max(1, block_size(math.prod(shape)) // width), height)
    item = _Item(height, width, most, groups, call.op.epsilon)
    x = call.read(0)
    given = [call.read(i) if call.has(i) else None for i in (1, 2)]
    out = call.write()
    pad, sums = scratch_floats(call, most * width), scratch_floats(call, 3 * width)

    def bind(buffers: Buffers) -> Bound:
        images, results = (buffers.array(v).reshape(shape[0], height, width) for v in (x, out))
        factors = tuple(None if v is None else buffers.array(v) for v in given)
        spare, totals = floats(buffers, pad), floats(buffers, sums)[: 3 * width].reshape(3, width)
        calls: list[Call] = []
        for image, result in zip(images, results, strict=True):
            calls += item.calls(image, result, spare, totals, factors)
        return call_sequence(calls)

    return call.step(bind, in_place=[(0, 0)])
