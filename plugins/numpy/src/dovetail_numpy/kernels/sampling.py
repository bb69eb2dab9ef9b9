"""Sampling on a grid: a block of positions at a time, corner by corner."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import (
    BLOCK,
    Call,
    Floats,
    blocks,
    constant,
    copy,
    fill,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels._registry import KERNELS, PACKAGE
from dovetail_numpy.kernels.conditions import is_float32

# Fewest positions of a block, however many channels there are: each block takes some 40 calls.
_LEAST = 256
Indices = NDArray[np.intp]


@KERNELS.register(PACKAGE, "GridSample")
def grid_sample(call: KernelCall) -> Step | None:
    """Run GridSample with linear interpolation."""
    if not is_float32(call) or call.op.mode.name != "BILINEAR":
        return None
    sampler = _Sampler.of(call)
    x, grid, out = call.read(0), call.read(1), call.write()
    frame = scratch_floats(call, math.prod(sampler.flat)) if sampler.is_framed else None
    numbers = scratch_floats(call, sampler.numbers)
    indices = call.scratch(sampler.indices * np.dtype(np.intp).itemsize)

    def bind(buffers: Buffers) -> Bound:
        images = buffers.array(x)
        results = buffers.array(out).reshape(len(images), -1, images.shape[-1])
        grids = buffers.array(grid).reshape(*results.shape[:2], -1)
        spare = _Spare(sampler, floats(buffers, numbers), buffers.array(indices).view(np.intp))
        calls: list[Call] = []
        for image, positions, result in zip(images, grids, results, strict=True):
            flat: Array = image
            if frame is not None:
                flat = floats(buffers, frame)
                calls += sampler.framing(image, flat)
            flat = flat.reshape(sampler.flat)
            for block in blocks(len(result), sampler.count):
                calls += sampler.block(flat, positions[block], result[block], spare)
        return call_sequence(calls)

    return call.step(bind)


@dataclass(frozen=True, slots=True)
class _Sampler:
    """A sampling of images (*spatial, c).

    Attributes:
        sizes: Sizes of the spatial axes.
        channels: Number of channels.
        count: Positions of a block.
        padding: Name of the padding mode.
        corners: Whether -1 and 1 are the centres of the outermost elements.
    """

    sizes: Shape
    channels: int
    count: int
    padding: str
    corners: bool

    @classmethod
    def of(cls, call: KernelCall) -> _Sampler:
        """Return the sampler of a call of GridSample."""
        _, *sizes, channels = call.spec(0).shape
        positions = math.prod(call.outputs[0].shape[1:-1])
        count = min(max(BLOCK // channels, _LEAST), positions)
        op = call.op
        return cls(tuple(sizes), channels, count, op.padding_mode.name, op.align_corners)

    @property
    def is_framed(self) -> bool:
        """True if images get a frame of zeros, which positions outside are moved to."""
        return self.padding == "ZEROS"

    @property
    def framed(self) -> Shape:
        """Spatial sizes of the images that elements are gathered from."""
        return tuple(n + 2 * self.is_framed for n in self.sizes)

    @property
    def flat(self) -> Shape:
        """Shape of an image that elements are gathered from: (positions, c)."""
        return math.prod(self.framed), self.channels

    @property
    def numbers(self) -> int:
        """Floats of a block: two weights for each axis, a position, a product, the elements."""
        return self.count * (2 * len(self.sizes) + 2 + self.channels)

    @property
    def indices(self) -> int:
        """Indices of a block: two offsets for each axis, and their sum."""
        return self.count * (2 * len(self.sizes) + 1)

    def framing(self, image: Array, frame: Floats) -> Iterator[Call]:
        """Return the calls that copy an image into its frame."""
        whole = frame.reshape(*self.framed, self.channels)
        yield fill(frame, constant(0))
        yield copy(whole[(slice(1, -1),) * len(self.sizes)], image)

    def block(self, flat: Array, grid: Array, out: Array, spare: _Spare) -> Iterator[Call]:
        """Return the calls for a block of positions (count, axes) and results (count, c)."""
        count, axes = grid.shape
        weights, offsets = spare.weights[..., :count], spare.offsets[..., :count]
        position, product = spare.position[:count], spare.product[:count]
        index, found = spare.index[:count], spare.found[:count]
        for axis in range(axes):
            # the grid lists the last axis first
            yield from self._position(grid[:, axes - 1 - axis], axis, position)
            yield from self._sides(position, axis, weights[axis], offsets[axis])
        for k, corner in enumerate(itertools.product((0, 1), repeat=axes)):
            yield ufunc(np.add, offsets[0, corner[0]], offsets[1, corner[1]], index)
            yield ufunc(np.multiply, weights[0, corner[0]], weights[1, corner[1]], product)
            for axis in range(2, axes):
                yield ufunc(np.add, index, offsets[axis, corner[axis]], index)
                yield ufunc(np.multiply, product, weights[axis, corner[axis]], product)
            target = found if k else out
            # the indices are in range; mode="raise" would gather into a copy first
            yield partial(np.take, flat, index, 0, target, "clip")
            yield ufunc(np.multiply, target, product[:, None], target)
            if k:
                yield ufunc(np.add, out, found, out)

    def _position(self, grid: Array, axis: int, position: Floats) -> Iterator[Call]:
        """Return the calls that convert coordinates of the grid into positions on an axis."""
        size = self.sizes[axis]
        one, two = constant(1), constant(2)
        yield ufunc(np.add, grid, one, position)
        if self.corners:
            yield ufunc(np.divide, position, two, position)
            yield ufunc(np.multiply, position, constant(size - 1), position)
        else:
            yield ufunc(np.multiply, position, constant(size), position)
            yield ufunc(np.subtract, position, one, position)
            yield ufunc(np.divide, position, two, position)
        if self.padding == "REFLECTION":
            yield from self._mirror(position, size)
        low, high = (-2, size + 1) if self.is_framed else (0, size - 1)
        yield from _limit(position, low, high)

    def _mirror(self, position: Floats, size: int) -> Iterator[Call]:
        """Return the calls that reflect positions into an axis, as often as necessary."""
        low = constant(0.0 if self.corners else -0.5)
        span = size - 1 if self.corners else size
        if not span:
            yield fill(position, constant(0))
            return
        yield ufunc(np.subtract, position, low, position)
        yield ufunc(np.abs, position, position)
        yield ufunc(np.remainder, position, constant(2 * span), position)
        yield ufunc(np.subtract, position, constant(span), position)
        yield ufunc(np.abs, position, position)
        yield ufunc(np.subtract, constant(span), position, position)
        yield ufunc(np.add, position, low, position)

    def _sides(
        self, position: Floats, axis: int, weights: Floats, offsets: Indices
    ) -> Iterator[Call]:
        """Return the calls for the weights and offsets, (2, count), of elements at positions."""
        low, rest = weights
        stride = np.asarray(math.prod(self.framed[axis + 1 :]), np.intp)
        yield ufunc(np.floor, position, low)
        yield ufunc(np.subtract, position, low, rest)
        for step, offset in enumerate(offsets):
            yield ufunc(np.add, low, constant(step + self.is_framed), position)
            yield from _limit(position, 0, self.framed[axis] - 1)
            yield partial(np.copyto, offset, position, "unsafe")  # whole numbers
            yield ufunc(np.multiply, offset, stride, offset)
        yield ufunc(np.subtract, constant(1), rest, low)


def _limit(values: Floats, low: float, high: float) -> Iterator[Call]:
    # unlike clip, these replace NaN, which must not become an index
    yield ufunc(np.fmax, values, constant(low), values)
    yield ufunc(np.fmin, values, constant(high), values)


class _Spare:
    """The scratch arrays of a block.

    Attributes:
        weights, offsets: Those of the two elements around each position, (axes, 2, count).
        position, product: For each position, (count,).
        index: Indices of the elements at one corner, (count,).
        found: These elements, (count, c).
    """

    def __init__(self, sampler: _Sampler, numbers: Floats, indices: Indices) -> None:
        axes, count = len(sampler.sizes), sampler.count
        shape, sides = (axes, 2, count), 2 * axes * count
        self.weights: Floats = numbers[:sides].reshape(shape)
        self.position: Floats = numbers[sides : sides + count]
        self.product: Floats = numbers[sides + count : sides + 2 * count]
        rest = numbers[sides + 2 * count : sampler.numbers]
        self.found: Floats = rest.reshape(count, sampler.channels)
        self.offsets: Indices = indices[:sides].reshape(shape)
        self.index: Indices = indices[sides : sides + count]
