"""Padding, and the exchange of blocks between space and batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.boxes import Box, copied, described
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels.movement import moved_element
from dovetail_gpu.launching import Launch, launch_all
from dovetail_gpu.layouts import constant_of, read, scratch, write
from dovetail_opset import STANDARD

Pairs = Sequence[tuple[int, int]]


@KERNELS.register(STANDARD, "Pad")
def pad(call: KernelCall) -> Step | None:
    """Run Pad: copy the inside, then the borders along one axis after the other."""
    element = moved_element(call)
    if element is None:
        return None
    scheme = call.op.scheme.name
    x, shape = read(call, 0, element), call.spec(0).shape
    y = write(call)
    pairs = [(int(before), int(after)) for before, after in call.op.pad_amount]
    if scheme == "CONSTANT":
        constant = constant_of(call, [call.op.pad_constant_value], call.spec(0), element)
        return launch_all(call, _filled(call, (x, y), shape, pairs, constant))
    return launch_all(call, _repeated(call, (x, y), shape, pairs, scheme))


@KERNELS.register(STANDARD, "SpaceToBatch")
def space_to_batch(call: KernelCall) -> Step | None:
    """Run SpaceToBatch: pad into a scratchpad where needed, then transpose."""
    element = moved_element(call)
    if element is None:
        return None
    rows, columns = call.op.block
    shape = call.spec(0).shape
    n, height, width, c = call.op.padded(shape)
    x, y = read(call, 0, element), write(call)
    launches = []
    if (height, width) != shape[1:3]:
        pairs = [(0, 0), *((int(a), int(b)) for a, b in call.op.pad_amount), (0, 0)]
        wide = scratch(call, element, n * height * width * c)
        zero = constant_of(call, [0.0], call.spec(0), element)
        launches += _filled(call, (x, wide), shape, pairs, zero)
        x = wide
    whole = described((n, height, width, c))
    parts = whole.reshape(n, height // rows, rows, width // columns, columns, c)
    launches.append(_transposed(call, (x, y), whole, parts.transpose(2, 4, 0, 1, 3, 5)))
    return launch_all(call, launches)


@KERNELS.register(STANDARD, "BatchToSpace")
def batch_to_space(call: KernelCall) -> Step | None:
    """Run BatchToSpace: transpose, into a scratchpad where the result is cropped."""
    element = moved_element(call)
    if element is None:
        return None
    rows, columns = call.op.block
    batch, h, w, c = call.spec(0).shape
    n = batch // (rows * columns)
    x, y = read(call, 0, element), write(call)
    whole = described((batch, h, w, c))
    parts = whole.reshape(rows, columns, n, h, w, c).transpose(2, 3, 0, 4, 1, 5)
    (top, bottom), (left, right) = (map(int, pair) for pair in call.op.crops)
    if not (top or bottom or left or right):
        return launch_all(call, [_transposed(call, (x, y), whole, parts)])
    uncropped = scratch(call, element, whole.size)
    first = _transposed(call, (x, uncropped), whole, parts)
    image = described((n, h * rows, w * columns, c))
    inside = image[:, top : h * rows - bottom, left : w * columns - right]
    return launch_all(call, [first, _transposed(call, (uncropped, y), image, inside)])


def _transposed(call: KernelCall, values: tuple[Value, Value], whole: Array, x: Array) -> Launch:
    """Return the launch that writes a view of all of the source densely."""
    y = described(x.shape)
    return copied(call, *values, Box.of(x, y, whole, y))


def _filled(
    call: KernelCall, values: tuple[Value, Value], shape: Shape, pairs: Pairs, constant: Value
) -> list[Launch]:
    """Return the launches that pad with a constant."""
    x, y = values
    whole, source = _padded(shape, pairs), described(shape)
    launches, inside = [], whole
    for axis, (before, after) in enumerate(pairs):
        size, skipped = inside.shape[axis], (slice(None),) * axis
        for side in (slice(before), slice(size - after, None)):
            border = inside[(*skipped, side)]
            if border.size:
                one = described((1,))
                launches.append(
                    copied(call, constant, y, Box.of(_spread(one, border), border, one, whole))
                )
        inside = inside[(*skipped, slice(before, size - after))]
    launches.append(copied(call, x, y, Box.of(source, inside, source, whole)))
    return launches


def _repeated(
    call: KernelCall, values: tuple[Value, Value], shape: Shape, pairs: Pairs, scheme: str
) -> list[Launch]:
    """Return the launches that pad with elements of the result itself, axis by axis."""
    x, y = values
    whole, source = _padded(shape, pairs), described(shape)
    inside = _inside(whole, pairs, 0)
    launches = [copied(call, x, y, Box.of(source, inside, source, whole))]
    for axis, (before, after) in enumerate(pairs):
        done = _inside(whole, pairs, axis + 1)  # whole along the axes up to this one
        size, skipped = shape[axis], (slice(None),) * axis
        for border, elements in _borders(before, after, size, scheme):
            target = done[(*skipped, border)]
            if target.size:
                found = np.broadcast_to(done[(*skipped, elements)], target.shape)
                launches.append(copied(call, y, y, Box.of(found, target, whole, whole)))
    return launches


def _borders(before: int, after: int, size: int, scheme: str) -> list[tuple[slice, slice]]:
    """Return the ranges of both borders of an axis, and of the elements that they repeat."""
    end = before + size
    first, last = slice(0, before), slice(end, end + after)
    if scheme == "EDGE":
        return [(first, slice(before, before + 1)), (last, slice(end - 1, end))]
    skip = int(scheme == "MIRROR_REFLECT")
    start = before + skip
    low = slice(start + before - 1, start - 1 if start else None, -1)
    stop = end - 1 - skip - after
    high = slice(end - 1 - skip, stop if stop >= 0 else None, -1)
    return [(first, low), (last, high)]


def _padded(shape: Shape, pairs: Pairs) -> Array:
    return described(tuple(n + sum(pair) for n, pair in zip(shape, pairs, strict=True)))


def _inside(whole: Array, pairs: Pairs, first: int) -> Array:
    """Return the inside of a padded tensor along the axes from `first` on."""
    index = [
        slice(before, size - after) if axis >= first else slice(None)
        for axis, (size, (before, after)) in enumerate(zip(whole.shape, pairs, strict=True))
    ]
    return np.asarray(whole[(*index, ...)])


def _spread(one: Array, target: Array) -> Array:
    """Return one element as all of a target."""
    return np.broadcast_to(one.reshape((1,) * target.ndim), target.shape)
