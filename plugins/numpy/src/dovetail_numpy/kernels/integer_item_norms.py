"""InstanceNorm and GroupNorm of stored bytes, a block of positions at a time.

Sums of bytes and of their squares are exact. What follows is that of LayerNorm in
`dovetail_numpy.kernels.integer_row_norms`, with a mean and a deviation for each channel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.kernels import wide_norms
from dovetail_numpy.kernels._calls import Floats, block_size, blocks
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.byte_rows import are_bytes, quiet
from dovetail_numpy.kernels.column_moments import column_moments
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.norm_numbers import NormNumbers
from dovetail_opset import STANDARD


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
    if 0 in call.spec(0).shape:
        return None
    norm = ItemNorm.of(call, groups)
    if norm is None:
        return wide_norms.item_norm(call, groups)
    x, out, pad = call.read(0), call.write(), call.scratch(norm.nbytes)

    def bind(buffers: Buffers) -> Bound:
        images, results = (buffers.array(v).reshape(-1, norm.height, norm.width) for v in (x, out))
        pads = buffers.array(pad).view(np.float32).reshape(2, norm.most, norm.width)
        return quiet(
            [
                functools.partial(norm.run, image, result, *pads)
                for image, result in zip(images, results, strict=True)
            ]
        )

    return call.step(bind)


class ItemNumbers(NamedTuple):
    """The numbers of an item by channel, float64: of the definition, then of its approximation.

    Attributes:
        floor: Floor of the mean of stored integers.
        share: What the mean has above it.
        root: Divisor of deviations.
        factor, offset: The result, zero point included, is the distance from the floor times one
            plus the other, in steps.
    """

    floor: Array
    share: Array
    root: Array
    factor: Array
    offset: Array


@dataclass(frozen=True, slots=True)
class ItemNorm:
    """The normalization of one item.

    Attributes:
        norm: Its numbers.
        groups: Number of groups of channels.
        height, width: Positions, and channels.
        most: Positions of a block.
    """

    norm: NormNumbers
    groups: int
    height: int
    width: int
    most: int

    @classmethod
    def of(cls, call: KernelCall, groups: int) -> ItemNorm | None:
        """Return that of a call; None unless it is of bytes, with constant factors."""
        factors = NormFactors.of(call)
        if factors is None or not are_bytes(call.head):
            return None
        shape = call.spec(0).shape
        height, width = math.prod(shape[1:-1]), shape[-1]
        numbers = NormNumbers.of(call.head, factors, width, height * (width // groups))
        if numbers is None:
            return None
        most = min(max(1, block_size(math.prod(shape)) // width), height)
        return cls(numbers, groups, height, width, most)

    @property
    def nbytes(self) -> int:
        """Size of two scratchpads of a block."""
        return 2 * 4 * self.most * self.width

    def numbers(self, q: Array, v: Floats, spare: Floats) -> ItemNumbers:
        """Return the numbers of an item, stored integers, (height, width)."""
        norm = self.norm
        floor, share, variance = column_moments(q, self.groups, v, spare)
        root = norm.root(variance)
        factor = norm.factor / root
        return ItemNumbers(floor, share, root, factor, norm.offset - share * factor)

    def exact(self, q: Array, numbers: Sequence[Array], at: NDArray[np.intp]) -> Array:
        """Return the real results of elements by the definition.

        Args:
            q: Stored integers, of whole positions.
            numbers: Floor, share and root.
            at: Flat indices of the elements.
        """
        column = at % self.width
        floor, share, root = (each[column] for each in numbers)
        above = q.reshape(-1)[at].astype(np.int64) - floor
        return self.norm.factors.applied((above - share) / root, column)

    def run(self, q: Array, out: Array, v: Floats, spare: Floats) -> None:
        """Normalize the positions of an item, stored integers, (height, width)."""
        found = self.numbers(q, v, spare)
        whole, factor, offset = (
            each.astype(np.float32) for each in (found.floor, found.factor, found.offset)
        )
        for block in blocks(self.height, self.most):
            stored = q[block]
            real, other = v[: len(stored)], spare[: len(stored)]
            np.copyto(real, stored)
            np.subtract(real, whole, real)
            np.multiply(real, factor, real)
            np.add(real, offset, real)
            exact = functools.partial(self.exact, stored, found[:3])
            self.norm.near.store(real, out[block], other, exact)
