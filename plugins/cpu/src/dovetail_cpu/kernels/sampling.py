"""Sampling on a grid: a block of places at a time, corner by corner."""

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
from dovetail_cpu.kernels._calls import (
    BLOCK,
    Call,
    Floats,
    blocks,
    constant,
    copy,
    fill,
    floats,
    is_float32,
    scratch_floats,
    ufunc,
)
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE

# Places in a block at least, however many channels there are: some 40 calls are made for each.
_LEAST = 256
Indices = NDArray[np.intp]


@KERNELS.register(PACKAGE, "GridSample")
def grid_sample(call: KernelCall) -> Step | None:
    """GridSample with linear interpolation."""
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
        for image, places, result in zip(images, grids, results, strict=True):
            flat: Array = image
            if frame is not None:
                flat = floats(buffers, frame)
                calls += sampler.framing(image, flat)
            flat = flat.reshape(sampler.flat)
            for block in blocks(len(result), sampler.count):
                calls += sampler.block(flat, places[block], result[block], spare)
        return call_sequence(calls)

    return call.step(bind)


@dataclass(frozen=True, slots=True)
class _Sampler:
    """A sampling of images (*spatial, c).

    Attributes:
        extents: Of the spatial axes.
        channels: Number of channels.
        count: Places in a block.
        padding: Name of what is outside.
        corners: Whether -1 and 1 are the centres of the outermost elements.
    """

    extents: Shape
    channels: int
    count: int
    padding: str
    corners: bool

    @classmethod
    def of(cls, call: KernelCall) -> _Sampler:
        """Return the sampler of a call of GridSample."""
        _, *extents, channels = call.spec(0).shape
        places = math.prod(call.outputs[0].shape[1:-1])
        count = min(max(BLOCK // channels, _LEAST), places)
        op = call.op
        return cls(tuple(extents), channels, count, op.padding_mode.name, op.align_corners)

    @property
    def is_framed(self) -> bool:
        """Whether images get a frame of zeros, where all falls that is outside."""
        return self.padding == "ZEROS"

    @property
    def framed(self) -> Shape:
        """Extents of the images as they are gathered from."""
        return tuple(n + 2 * self.is_framed for n in self.extents)

    @property
    def flat(self) -> Shape:
        """Shape of an image as it is gathered from: (places, c)."""
        return math.prod(self.framed), self.channels

    @property
    def numbers(self) -> int:
        """Floats that a block needs: two weights an axis, one place, one product, the elements."""
        return self.count * (2 * len(self.extents) + 2 + self.channels)

    @property
    def indices(self) -> int:
        """Indices that a block needs: two offsets an axis, and their sum."""
        return self.count * (2 * len(self.extents) + 1)

    def framing(self, image: Array, frame: Floats) -> Iterator[Call]:
        """Return the calls that put an image into its frame."""
        whole = frame.reshape(*self.framed, self.channels)
        yield fill(frame, constant(0))
        yield copy(whole[(slice(1, -1),) * len(self.extents)], image)

    def block(self, flat: Array, grid: Array, out: Array, spare: _Spare) -> Iterator[Call]:
        """Return the calls for a block of places (count, axes) and results (count, c)."""
        count, axes = grid.shape
        weights, offsets = spare.weights[..., :count], spare.offsets[..., :count]
        place, product = spare.place[:count], spare.product[:count]
        index, found = spare.index[:count], spare.found[:count]
        for axis in range(axes):
            # the grid names the last axis first
            yield from self._place(grid[:, axes - 1 - axis], axis, place)
            yield from self._sides(place, axis, weights[axis], offsets[axis])
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

    def _place(self, grid: Array, axis: int, place: Floats) -> Iterator[Call]:
        """Return the calls that turn coordinates of the grid into places on an axis."""
        extent = self.extents[axis]
        one, two = constant(1), constant(2)
        yield ufunc(np.add, grid, one, place)
        if self.corners:
            yield ufunc(np.divide, place, two, place)
            yield ufunc(np.multiply, place, constant(extent - 1), place)
        else:
            yield ufunc(np.multiply, place, constant(extent), place)
            yield ufunc(np.subtract, place, one, place)
            yield ufunc(np.divide, place, two, place)
        if self.padding == "REFLECTION":
            yield from self._mirror(place, extent)
        least, most = (-2, extent + 1) if self.is_framed else (0, extent - 1)
        yield from _limit(place, least, most)

    def _mirror(self, place: Floats, extent: int) -> Iterator[Call]:
        """Return the calls that mirror places into an axis, as often as it takes."""
        low = constant(0.0 if self.corners else -0.5)
        span = extent - 1 if self.corners else extent
        if not span:
            yield fill(place, constant(0))
            return
        yield ufunc(np.subtract, place, low, place)
        yield ufunc(np.abs, place, place)
        yield ufunc(np.remainder, place, constant(2 * span), place)
        yield ufunc(np.subtract, place, constant(span), place)
        yield ufunc(np.abs, place, place)
        yield ufunc(np.subtract, constant(span), place, place)
        yield ufunc(np.add, place, low, place)

    def _sides(self, place: Floats, axis: int, weights: Floats, offsets: Indices) -> Iterator[Call]:
        """Return the calls for the elements on both sides of places: (2, count) of each."""
        low, rest = weights
        stride = np.asarray(math.prod(self.framed[axis + 1 :]), np.intp)
        yield ufunc(np.floor, place, low)
        yield ufunc(np.subtract, place, low, rest)
        for step, offset in enumerate(offsets):
            yield ufunc(np.add, low, constant(step + self.is_framed), place)
            yield from _limit(place, 0, self.framed[axis] - 1)
            yield partial(np.copyto, offset, place, "unsafe")  # whole numbers
            yield ufunc(np.multiply, offset, stride, offset)
        yield ufunc(np.subtract, constant(1), rest, low)


def _limit(values: Floats, least: float, most: float) -> Iterator[Call]:
    # unlike clip, these two prefer a number to nan
    yield ufunc(np.fmax, values, constant(least), values)
    yield ufunc(np.fmin, values, constant(most), values)


class _Spare:
    """What a block is computed in.

    Attributes:
        weights, offsets: Of the elements on both sides of each place, (axes, 2, count).
        place, product: Of each place, (count,).
        index: Of the elements at one corner, (count,).
        found: These elements, (count, c).
    """

    def __init__(self, sampler: _Sampler, numbers: Floats, indices: Indices) -> None:
        axes, count = len(sampler.extents), sampler.count
        shape, sides = (axes, 2, count), 2 * axes * count
        self.weights: Floats = numbers[:sides].reshape(shape)
        self.place: Floats = numbers[sides : sides + count]
        self.product: Floats = numbers[sides + count : sides + 2 * count]
        rest = numbers[sides + 2 * count : sampler.numbers]
        self.found: Floats = rest.reshape(count, sampler.channels)
        self.offsets: Indices = indices[:sides].reshape(shape)
        self.index: Indices = indices[sides : sides + count]
