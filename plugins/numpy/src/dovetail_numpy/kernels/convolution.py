"""Convolutions: matrix products, except for depthwise ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.kernels._calls import (
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
from dovetail_numpy.kernels._depthwise import depthwise_step
from dovetail_numpy.kernels._epilogue import Epilogue, can_fuse
from dovetail_numpy.kernels._geometry import Geometry, Pads, pieces
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_opset import STANDARD

# Floats of the result computed before the epilogue processes them: 1 MB, the second-level cache.
# Smaller pieces are too little work for two threads of the BLAS.
PIECE = 1 << 18
# Floats of an unrolled input at a time: 2 MB. It is written and read once, so it should not evict
# everything else from the cache.
UNROLLED = 1 << 19


@KERNELS.register(STANDARD, "Conv1d", can_fuse=can_fuse)
@KERNELS.register(STANDARD, "Conv2d", can_fuse=can_fuse)
@KERNELS.register(STANDARD, "Conv3d", can_fuse=can_fuse)
def convolution(call: KernelCall) -> Step | None:
    """Run Conv1d to Conv3d: a matrix product over pixels for 1x1 filters, else over windows.

    Source: K. Chellapilla et al. 2006, High performance convolutional neural networks for document
    processing.
    """
    if not is_float32(call):
        return None
    geometry = Geometry.of(call, call.op.group)
    if len(geometry.size) == 2 and call.spec(1).shape[-2] == 1 and geometry.groups > 1:
        return depthwise_step(call, geometry)
    x, weight = call.read(0), call.read(1)
    epilogue = Epilogue(call, bias=2)
    out = call.write()
    if geometry.is_pointwise and geometry.groups == 1:
        return call.step(_pointwise(x, weight, out, epilogue, geometry))
    return call.step(_Unrolled(call, geometry, (x, weight, out), epilogue).bind)


@KERNELS.register(STANDARD, "DepthWiseConv1d", can_fuse=can_fuse)
@KERNELS.register(STANDARD, "DepthWiseConv2d", can_fuse=can_fuse)
def depthwise_convolution(call: KernelCall) -> Step | None:
    """Run DepthWiseConv1d and DepthWiseConv2d, tap by tap."""
    if not is_float32(call):
        return None
    return depthwise_step(call, Geometry.of(call, call.spec(0).shape[-1]))


def _pointwise(
    x: Value, weight: Value, out: Value, epilogue: Epilogue, geometry: Geometry
) -> Callable[[Buffers], Bound]:
    taken, made = geometry.x[-1], geometry.out[-1]

    def bind(buffers: Buffers) -> Bound:
        pixels = buffers.array(x).reshape(-1, taken)
        filters = buffers.array(weight).reshape(taken, made)
        return product(pixels, filters, buffers.array(out), epilogue.bind(buffers, made))

    return bind


def product(
    rows: Array, matrix: Array, out: Array, after: Callable[[Array, int], list[Call]]
) -> Bound:
    """Return the call that multiplies rows by a matrix, piece by piece, each with its epilogue."""
    results = out.reshape(len(rows), -1)
    calls: list[Call] = []
    for piece in blocks(len(rows), max(1, PIECE // results.shape[1])):
        calls.append(ufunc(np.matmul, rows[piece], matrix, results[piece]))
        calls += after(results[piece], piece.start)
    return call_sequence(calls)


class _Unrolled:
    """Windows copied into the rows of a matrix that is multiplied by the filters, for each group.

    The matrix is (groups, positions, taps * c / groups), for some rows of one image at a time. It
    is a scratchpad; so is a padded image.
    """

    def __init__(
        self,
        call: KernelCall,
        geometry: Geometry,
        values: tuple[Value, Value, Value],
        epilogue: Epilogue,
    ) -> None:
        self._geometry = g = geometry
        self._x, self._weight, self._out = values
        self._epilogue = epilogue
        self._depth = math.prod(g.size) * (g.x[-1] // g.groups)
        most = min(UNROLLED // (self._depth * g.groups), PIECE // g.out[-1])
        self._pieces = list(pieces(g.out[1:-1], most))
        largest = max(piece.count for piece in self._pieces)
        self._matrix = scratch_floats(call, g.groups * largest * self._depth)
        is_padded = any(map(any, g.pads))
        self._image = scratch_floats(call, math.prod(g.padded)) if is_padded else None

    def bind(self, buffers: Buffers) -> Bound:
        g = self._geometry
        made = g.out[-1]
        x, out = buffers.array(self._x).reshape(g.x), buffers.array(self._out)
        # (groups, depth, outputs of a group)
        filters = buffers.array(self._weight).reshape(self._depth, g.groups, -1).swapaxes(0, 1)
        after = self._epilogue.bind(buffers, made)
        calls: list[Call] = []
        image, results = x[0], out.reshape(-1, made)
        if self._image is not None:
            image = floats(buffers, self._image).reshape(g.padded)
            calls += _border_calls(image, g.pads)
        for n in range(g.x[0]):
            if self._image is None:
                image = x[n]
            else:
                calls.append(copy(_inside(image, g.pads), x[n]))
            windows = self._windows(image)
            for piece in self._pieces:
                first = n * math.prod(g.out[1:-1]) + piece.positions.start
                part = results[first : first + piece.count]
                calls += self._product(buffers, windows[:, *piece.index], filters, part)
                calls += after(part, first)
        return call_sequence(calls)

    def _windows(self, image: Array) -> Array:
        """Return the windows of an image, (groups, *positions, *taps, c / groups), as a view."""
        g = self._geometry
        *steps, across = image.strides
        each = g.x[-1] // g.groups
        positions = (step * stride for step, stride in zip(steps, g.stride, strict=True))
        taps = (step * dilation for step, dilation in zip(steps, g.dilation, strict=True))
        return np.lib.stride_tricks.as_strided(
            image,
            (g.groups, *g.out[1:-1], *g.size, each),
            (each * across, *positions, *taps, across),
            writeable=False,
        )

    def _product(self, buffers: Buffers, windows: Array, filters: Array, part: Array) -> list[Call]:
        groups, positions = self._geometry.groups, len(part)
        count = groups * positions * self._depth
        matrix: Floats = floats(buffers, self._matrix)[:count]
        calls: list[Call] = [copy(matrix.reshape(windows.shape), windows)]
        stacked = matrix.reshape(groups, positions, self._depth)
        if groups == 1:
            return [*calls, ufunc(np.matmul, stacked[0], filters[0], part)]
        results = part.reshape(positions, groups, -1).swapaxes(0, 1)
        return [*calls, ufunc(np.matmul, stacked, filters, results)]


def _inside(padded: Array, pads: Pads) -> Array:
    sizes = zip(padded.shape, pads, strict=False)
    return padded[tuple(slice(before, size - after) for size, (before, after) in sizes)]


def _border_calls(padded: Array, pads: Pads) -> list[Call]:
    """Return the calls that zero the padding in every run: other steps use the same bytes."""
    calls = []
    for axis, (before, after) in enumerate(pads):
        # the padding of the axes before has been zeroed already
        part = np.moveaxis(_inside(padded, pads[:axis]), axis, 0)
        sides = part[:before], part[len(part) - after :]
        calls += [fill(side, constant(0)) for side in sides if side.size]
    return calls
