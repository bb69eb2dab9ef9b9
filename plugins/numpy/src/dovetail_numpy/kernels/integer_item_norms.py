"""InstanceNorm and GroupNorm of stored bytes, a block of positions at a time.

Sums of bytes and of their squares are exact. What follows is that of LayerNorm in
`dovetail_numpy.kernels.integer_layer_norm`, with a mean and a deviation for each channel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.integer.norms import mean_and_variance
from dovetail_numpy.kernels import wide_norms
from dovetail_numpy.kernels._calls import Floats, block_size, blocks
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.byte_rows import are_bytes, quiet
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.norm_numbers import NormNumbers
from dovetail_opset import STANDARD

_MOST_ADDED = 256  # squares of bytes, whose sum float32 has exactly


@KERNELS.register(STANDARD, "InstanceNorm", quantized=True)
def instance_norm(call: KernelCall) -> Step | None:
    """Run InstanceNorm by mean and deviation over space, with constant factors."""
    if not call.op.is_by_channel:
        return None
    return _item_norm(call, call.spec(0).shape[-1])


@KERNELS.register(STANDARD, "GroupNorm", quantized=True)
def group_norm(call: KernelCall) -> Step | None:
    """Run GroupNorm with constant factors."""
    return _item_norm(call, call.op.group)


def _item_norm(call: KernelCall, groups: int) -> Step | None:
    factors = NormFactors.of(call)
    if factors is None or not are_bytes(call.head):
        return wide_norms.item_norm(call, groups)
    shape = call.spec(0).shape
    items, height, width = shape[0], math.prod(shape[1:-1]), shape[-1]
    numbers = NormNumbers.of(call.head, factors, width, height * (width // groups))
    if numbers is None:
        return wide_norms.item_norm(call, groups)
    norm = _ItemNorm(numbers, groups, min(max(1, block_size(math.prod(shape)) // width), height))
    x, out = call.read(0), call.write()
    pad = call.scratch(2 * 4 * norm.most * width)

    def bind(buffers: Buffers) -> Bound:
        images, results = (buffers.array(v).reshape(items, height, width) for v in (x, out))
        pads = buffers.array(pad).view(np.float32).reshape(2, norm.most, width)
        return quiet(
            [
                functools.partial(norm.run, image, result, *pads)
                for image, result in zip(images, results, strict=True)
            ]
        )

    return call.step(bind)


@dataclass(frozen=True, slots=True)
class _ItemNorm:
    """The normalization of one item.

    Attributes:
        norm: Its numbers.
        groups: Number of groups of channels.
        most: Positions of a block.
    """

    norm: NormNumbers
    groups: int
    most: int

    def run(self, q: Array, out: Array, v: Floats, spare: Floats) -> None:
        """Normalize the positions of an item, stored integers, (height, width)."""
        height, width = q.shape
        norm, size = self.norm, width // self.groups
        totals = np.zeros((2, width), np.int64)
        for part in self._sums(q, v, spare):
            totals += part.astype(np.int64)
        by_group = totals.reshape(2, self.groups, size).sum(2)
        # of stored integers: zero points cancel
        found = mean_and_variance(by_group[0], by_group[1], height * size)
        floor, share, variance = (np.repeat(each, size) for each in found)
        root = norm.root(variance)
        whole = floor.astype(np.float32)
        factor = norm.factor / root
        offset = (norm.offset - share * factor).astype(np.float32)
        factor = factor.astype(np.float32)
        for block in blocks(height, self.most):
            stored = q[block]
            real, other = v[: len(stored)], spare[: len(stored)]
            np.copyto(real, stored)
            np.subtract(real, whole, real)
            np.multiply(real, factor, real)
            np.add(real, offset, real)

            def exact(at: NDArray[np.intp], stored: Array = stored) -> Array:
                column = at % width
                above = stored.reshape(-1)[at].astype(np.int64) - floor[column]
                return norm.factors.applied((above - share[column]) / root[column], column)

            norm.near.store(real, out[block], other, exact)

    def _sums(self, q: Array, v: Floats, spare: Floats) -> Iterator[Array]:
        """Yield the sums by channel, and those of squares, of parts of an item: (2, width)."""
        for block in blocks(len(q), min(self.most, _MOST_ADDED)):
            count = block.stop - block.start
            np.copyto(v[:count], q[block])
            np.multiply(v[:count], v[:count], spare[:count])
            yield np.stack([np.add.reduce(each[:count], 0) for each in (v, spare)])
