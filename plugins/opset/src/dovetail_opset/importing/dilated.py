"""Dilated pooling, which no op computes: slices of the input, combined axis by axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from dovetail.ir import Array, Shape, Tensor
from dovetail_opset.importing.context import ImportContext
from dovetail_opset.importing.windows import Window

# Slices of one pooling: a window of 15 x 15 is larger than any that is dilated in known networks.
_MOST_SLICES = 32
_CONSTANT = 0  # Pad's scheme


def needs_slices(window: Window) -> bool:
    """Return whether windows are dilated even if the elements that none sees are left out."""
    axes = zip(window.kernel, window.strides, window.dilations, strict=True)
    return any(taps > 1 and stride % dilation for taps, stride, dilation in axes)


def padded(op: ImportContext, x: Tensor, pads: Sequence[tuple[int, int]], value: float) -> Tensor:
    """Return (n, ..., c) with that many elements of a value before and after each spatial axis."""
    if not any(map(any, pads)):
        return x
    amounts = ((0, 0), *pads, (0, 0))
    return op.step(
        "padded", "Pad", [x], scheme=_CONSTANT, pad_amount=amounts, pad_constant_value=value
    )


def pooled_by_slices(
    op: ImportContext, x: Tensor, window: Window, combine: str, value: float
) -> Tensor:
    """Return (n, ..., c) pooled by a window.

    Each axis is padded just before its slices are combined. If all were padded at once, the first
    axis would combine padding alone, and a quantizer would find no range for the lowest number.

    Args:
        op: The pooling.
        x: The input.
        window: It ends where the padding does, see `Window.covering`.
        combine: The op that combines two slices; its order must not matter.
        value: The padding.

    Raises:
        UnsupportedOpError: The window has too many elements.
    """
    if sum(window.kernel) > _MOST_SLICES:
        raise op.unsupported(
            f"kernel {window.kernel} with dilations {window.dilations} would take more "
            f"than {_MOST_SLICES} slices: no pooling op has dilation"
        )
    counts = window.counts(x.shape[1:-1])
    for axis, count in enumerate(counts):
        pads = [each if a == axis else (0, 0) for a, each in enumerate(window.pads)]
        x = padded(op, x, pads, value)
        taps, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
        reach = (count - 1) * stride + 1
        slices = [
            _sliced(op, x, 1 + axis, (t * dilation, t * dilation + reach, stride))
            for t in range(taps)
        ]
        x = reduce(lambda a, b: op.step("combined", combine, [a, b]), slices)
    return x


def thinned(op: ImportContext, x: Tensor, window: Window) -> tuple[Tensor, Window]:
    """Return (n, ..., c) without the elements that no window sees, and the window over the rest.

    If the stride is a multiple of the dilation, the new window has no dilation.

    Args:
        op: The pooling.
        x: Padded already.
        window: Without padding.
    """
    steps = tuple(map(math.gcd, window.strides, window.dilations))
    if set(steps) == {1}:
        return x, window
    rows = [(0, n, step) for n, step in zip(x.shape, (1, *steps, 1), strict=True)]
    seen = op.step("seen", "StridedSlice", [x], ranges=rows)
    return seen, replace(
        window,
        strides=tuple(s // step for s, step in zip(window.strides, steps, strict=True)),
        dilations=tuple(d // step for d, step in zip(window.dilations, steps, strict=True)),
    )


def element_counts(window: Window, spatial: Shape, *, padding: bool) -> Array:
    """Return how many elements of each window are in the input, or also its padding, as float32.

    A window without elements along an axis, whose sum is 0, counts as if it had one there.
    """
    found = np.ones((), np.float32)
    for axis, count in enumerate(window.counts(spatial)):
        before, after = window.pads[axis] if padding else (0, 0)
        starts = np.arange(count) * window.strides[axis] - window.pads[axis][0]
        taps = np.arange(window.kernel[axis]) * window.dilations[axis]
        positions = starts[:, None] + taps
        inside = (positions >= -before) & (positions < spatial[axis] + after)
        along = np.maximum(inside.sum(axis=1), 1).astype(np.float32)
        found = np.multiply.outer(found, along)
    return found


def _sliced(op: ImportContext, x: Tensor, axis: int, row: tuple[int, int, int]) -> Tensor:
    if row == (0, x.shape[axis], 1):
        return x
    ranges = [(0, size, 1) for size in x.shape]
    ranges[axis] = row
    return op.step("slice", "StridedSlice", [x], ranges=ranges)
