"""Convolutions: as matrix products, except depthwise ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value
from dovetail_cpu.kernels._calls import (
    Call,
    Floats,
    blocks,
    constant,
    copy,
    fill,
    floats,
    in_order,
    is_float32,
    scratch_floats,
    ufunc,
)
from dovetail_cpu.kernels._depthwise import depthwise_step
from dovetail_cpu.kernels._epilogue import Epilogue, absorbs
from dovetail_cpu.kernels._geometry import Geometry, Pads
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE

# Floats of a result that are computed before the epilogue goes over them: 1 MB, the second-level
# cache. Smaller pieces leave the BLAS too little to do for two threads.
PIECE = 1 << 18
# Floats of an unrolled input at a time: 2 MB. It is written once and read once, so it should not
# push everything else out of the cache.
UNROLLED = 1 << 19


@KERNELS.register(PACKAGE, "Conv2d", absorbs=absorbs)
def conv2d(call: KernelCall) -> Step | None:
    """Conv2d: a matrix product over pixels where the filters are 1x1, else over unrolled windows.

    Source: K. Chellapilla et al. 2006, High performance convolutional neural networks for document
    processing.
    """
    if not is_float32(call):
        return None
    geometry = Geometry.of(call, call.op.group)
    if call.spec(1).shape[2] == 1 and geometry.groups > 1:
        return depthwise_step(call, geometry)
    x, weight = call.read(0), call.read(1)
    epilogue = Epilogue(call, bias=2)
    out = call.write()
    if geometry.is_pointwise and geometry.groups == 1:
        return call.step(_pointwise(x, weight, out, epilogue, geometry))
    return call.step(_Unrolled(call, geometry, (x, weight, out), epilogue).bind)


@KERNELS.register(PACKAGE, "DepthWiseConv2d", absorbs=absorbs)
def depthwise_conv2d(call: KernelCall) -> Step | None:
    """DepthWiseConv2d: tap by tap, multiplied and added."""
    if not is_float32(call):
        return None
    return depthwise_step(call, Geometry.of(call, call.spec(0).shape[3]))


def _pointwise(
    x: Value, weight: Value, out: Value, epilogue: Epilogue, geometry: Geometry
) -> Callable[[Buffers], Bound]:
    taken, made = geometry.x[3], geometry.out[3]

    def bind(buffers: Buffers) -> Bound:
        pixels = buffers.array(x).reshape(-1, taken)
        filters = buffers.array(weight).reshape(taken, made)
        return product(pixels, filters, buffers.array(out), epilogue.bind(buffers, made))

    return bind


def product(
    rows: Array, matrix: Array, out: Array, after: Callable[[Array, int], list[Call]]
) -> Bound:
    """Gives the call that multiplies rows with a matrix, piece by piece, each with its epilogue."""
    results = out.reshape(len(rows), -1)
    calls: list[Call] = []
    for piece in blocks(len(rows), max(1, PIECE // results.shape[1])):
        calls.append(ufunc(np.matmul, rows[piece], matrix, results[piece]))
        calls += after(results[piece], piece.start)
    return in_order(calls)


class _Unrolled:
    """Windows copied into the rows of a matrix, which multiplies the filters; for each group.

    The matrix is (groups, places, fh * fw * c / groups): some rows of places of one image at a
    time, in a scratchpad; so is an image with its padding.
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
        self._depth = g.size[0] * g.size[1] * (g.x[3] // g.groups)
        width = g.out[2]
        most = max(UNROLLED // (width * self._depth * g.groups), 1)
        self._rows = min(most, max(PIECE // (width * g.out[3]), 1), g.out[1])
        self._matrix = scratch_floats(call, g.groups * self._rows * width * self._depth)
        is_padded = any(map(any, g.pads))
        self._image = scratch_floats(call, int(np.prod(g.padded))) if is_padded else None

    def bind(self, buffers: Buffers) -> Bound:
        g = self._geometry
        made = g.out[3]
        x, out = buffers.array(self._x), buffers.array(self._out)
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
            for rows in blocks(g.out[1], self._rows):
                first = (n * g.out[1] + rows.start) * g.out[2]
                part = results[first : first + (rows.stop - rows.start) * g.out[2]]
                calls += self._product(buffers, windows[:, rows], filters, part)
                calls += after(part, first)
        return in_order(calls)

    def _windows(self, image: Array) -> Array:
        """Gives the windows of an image as (groups, oh, ow, fh, fw, c / groups), a view."""
        g = self._geometry
        down, right, across = image.strides
        (up_stride, side_stride), (up_step, side_step) = g.stride, g.dilation
        each = g.x[3] // g.groups
        return np.lib.stride_tricks.as_strided(
            image,
            (g.groups, *g.out[1:3], *g.size, each),
            (
                each * across,
                down * up_stride,
                right * side_stride,
                down * up_step,
                right * side_step,
                across,
            ),
            writeable=False,
        )

    def _product(self, buffers: Buffers, windows: Array, filters: Array, part: Array) -> list[Call]:
        groups, places = self._geometry.groups, len(part)
        count = groups * places * self._depth
        matrix: Floats = floats(buffers, self._matrix)[:count]
        calls: list[Call] = [copy(matrix.reshape(windows.shape), windows)]
        stacked = matrix.reshape(groups, places, self._depth)
        if groups == 1:
            return [*calls, ufunc(np.matmul, stacked[0], filters[0], part)]
        results = part.reshape(places, groups, -1).swapaxes(0, 1)
        return [*calls, ufunc(np.matmul, stacked, filters, results)]


def _inside(padded: Array, pads: Pads) -> Array:
    (top, bottom), (left, right) = pads
    height, width = padded.shape[:2]
    return padded[top : height - bottom, left : width - right]


def _border_calls(padded: Array, pads: Pads) -> list[Call]:
    """Zeroes the padding: at every run, since other steps use the scratchpad's bytes too."""
    (top, bottom), (left, right) = pads
    height, width = padded.shape[:2]
    sides: list[Any] = [
        padded[:top],
        padded[height - bottom :],
        padded[top : height - bottom, :left],
        padded[top : height - bottom, width - right :],
    ]
    return [fill(side, constant(0)) for side in sides if side.size]
