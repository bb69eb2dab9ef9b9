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
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_opset import STANDARD

# Positions whose weights and elements are found together, and the fewest whose elements are then
# gathered together, however many channels there are.
_BATCH, _LEAST = 8192, 256
Indices = NDArray[np.intp]


@KERNELS.register(STANDARD, "GridSample")
def grid_sample(call: KernelCall) -> Step | None:
    """Run GridSample with linear interpolation."""
    if not is_float32(call) or call.op.mode.name != "BILINEAR":
        return None
    sampler = _Sampler.of(call)
    x, grid, out = call.read(0), call.read(1), call.write()
    frame = scratch_floats(call, sampler.group * sampler.frame) if sampler.is_framed else None
    numbers = scratch_floats(call, sampler.numbers)
    indices = call.scratch(sampler.indices * np.dtype(np.intp).itemsize)
    starts = np.repeat(np.arange(sampler.group) * math.prod(sampler.framed), sampler.positions)
    base = call.constant(starts) if sampler.group > 1 else None

    def bind(buffers: Buffers) -> Bound:
        images = buffers.array(x)
        results = buffers.array(out).reshape(len(images), -1, images.shape[-1])
        grids = buffers.array(grid).reshape(*results.shape[:2], -1)
        first = np.zeros(1, np.intp) if base is None else buffers.array(base)
        spare = _Spare(sampler, floats(buffers, numbers), buffers.array(indices).view(np.intp))
        calls: list[Call] = []
        for group in blocks(len(images), sampler.group):
            flat: Array = images[group]
            if frame is not None:
                flat = floats(buffers, frame)[: len(flat) * sampler.frame]
                calls += sampler.framing(images[group], flat)
            flat = flat.reshape(-1, images.shape[-1])
            positions = grids[group].reshape(-1, grids.shape[-1])
            result = results[group].reshape(len(positions), -1)
            for batch in blocks(len(positions), sampler.batch):
                start = first if base is None else first[batch]
                calls += sampler.locate(positions[batch], start, spare)
                into = result[batch]
                for block in blocks(len(into), sampler.count):
                    calls += sampler.gather(flat, block, into[block], spare)
        return call_sequence(calls)

    return call.step(bind)


@dataclass(frozen=True, slots=True)
class _Sampler:
    """A sampling of images (*spatial, c).

    Attributes:
        sizes: Sizes of the spatial axes.
        channels: Number of channels.
        positions: Positions in each image.
        group: Images that are sampled together.
        padding: Name of the padding mode.
        corners: Whether -1 and 1 are the centers of the outermost elements.
    """

    sizes: Shape
    channels: int
    positions: int
    group: int
    padding: str
    corners: bool

    @classmethod
    def of(cls, call: KernelCall) -> _Sampler:
        """Return the sampler of a call of GridSample."""
        images, *sizes, channels = call.spec(0).shape
        positions = math.prod(call.outputs[0].shape[1:-1])
        group = min(images, max(1, _BATCH // positions))
        op = call.op
        padding, corners = op.padding_mode.name, op.align_corners
        return cls(tuple(sizes), channels, positions, group, padding, corners)

    @property
    def batch(self) -> int:
        """Positions whose weights and elements are found together."""
        return min(_BATCH, self.group * self.positions)

    @property
    def count(self) -> int:
        """Positions whose elements are gathered together."""
        return min(max(BLOCK // self.channels, _LEAST), self.batch)

    @property
    def is_framed(self) -> bool:
        """True if images get a frame of zeros, which positions outside are moved to."""
        return self.padding == "ZEROS"

    @property
    def framed(self) -> Shape:
        """Spatial sizes of the images that elements are gathered from."""
        return tuple(n + 2 * self.is_framed for n in self.sizes)

    @property
    def frame(self) -> int:
        """Elements of a framed image."""
        return math.prod(self.framed) * self.channels

    @property
    def parts(self) -> tuple[int, int]:
        """Sides of all axes, two for each, and corners."""
        return 2 * len(self.sizes), 1 << len(self.sizes)

    @property
    def numbers(self) -> int:
        """Floats: weights of sides and corners, positions, and gathered elements."""
        return self.batch * (sum(self.parts) + 1) + self.count * self.channels

    @property
    def indices(self) -> int:
        """Indices: offsets of sides, and elements at corners."""
        return self.batch * sum(self.parts)

    def framing(self, images: Array, frame: Floats) -> Iterator[Call]:
        """Yield the calls that copy images into their frames."""
        whole = frame.reshape(len(images), *self.framed, self.channels)
        yield fill(frame, constant(0))
        yield copy(whole[:, *(slice(1, -1),) * len(self.sizes)], images)

    def locate(self, grid: Array, start: Indices, spare: _Spare) -> Iterator[Call]:
        """Yield the calls that find weights and elements of positions (n, axes).

        Args:
            grid: The positions.
            start: First element of each one's image.
            spare: The scratch arrays.
        """
        count, axes = grid.shape
        weights, offsets = spare.weights[..., :count], spare.offsets[..., :count]
        position = spare.position[:count]
        for axis in range(axes):
            # the grid lists the last axis first
            yield from self._position(grid[:, axes - 1 - axis], axis, position)
            yield from self._sides(position, axis, weights[axis], offsets[axis])
        if self.group > 1:
            yield ufunc(np.add, offsets[0], start, offsets[0])
        for k, corner in enumerate(itertools.product((0, 1), repeat=axes)):
            index, product = spare.corners[k, :count], spare.products[k, :count]
            yield ufunc(np.add, offsets[0, corner[0]], offsets[1, corner[1]], index)
            yield ufunc(np.multiply, weights[0, corner[0]], weights[1, corner[1]], product)
            for axis in range(2, axes):
                yield ufunc(np.add, index, offsets[axis, corner[axis]], index)
                yield ufunc(np.multiply, product, weights[axis, corner[axis]], product)

    def gather(self, flat: Array, block: slice, out: Array, spare: _Spare) -> Iterator[Call]:
        """Yield the calls that interpolate between the elements of some positions.

        Args:
            flat: All elements, (positions, c).
            block: The positions, of those that were located.
            out: Their results, (n, c).
            spare: The scratch arrays.
        """
        for k, (index, product) in enumerate(zip(spare.corners, spare.products, strict=True)):
            target = spare.found[: len(out)] if k else out
            # the indices are in range; mode="raise" would gather into a copy first
            yield partial(flat.take, index[block], 0, target, "clip")
            yield ufunc(np.multiply, target, product[block, None], target)
            if k:
                yield ufunc(np.add, out, target, out)

    def _position(self, grid: Array, axis: int, position: Floats) -> Iterator[Call]:
        """Yield the calls that convert coordinates of the grid into positions on an axis."""
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
        """Yield the calls that reflect positions into an axis, as often as necessary."""
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
        """Yield the calls for the weights and offsets, (2, count), of elements at positions."""
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
    """The scratch arrays.

    Attributes:
        weights, offsets: Those of the two elements around each position, (axes, 2, batch).
        position: A coordinate of each position, (batch,).
        corners, products: Elements around each position and their weights, (corners, batch).
        found: Elements at one corner, (count, c).
    """

    def __init__(self, sampler: _Sampler, numbers: Floats, indices: Indices) -> None:
        batch, (sides, corners) = sampler.batch, sampler.parts
        shape = sides // 2, 2, batch
        ends = np.cumsum([sides * batch, batch, corners * batch])
        weights, self.position, products, found = np.split(numbers[: sampler.numbers], ends)
        self.weights: Floats = weights.reshape(shape)
        self.products: Floats = products.reshape(corners, batch)
        self.found: Floats = found.reshape(sampler.count, sampler.channels)
        self.offsets: Indices = indices[: sides * batch].reshape(shape)
        self.corners: Indices = indices[sides * batch : sampler.indices].reshape(corners, batch)
