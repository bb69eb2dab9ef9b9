"""Indices of the maxima of pooling, found among slices of the input."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array, DType, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr
from dovetail_opset.importing.layout import reshaped
from dovetail_opset.importing.windows import Window
from dovetail_opset.perms import to_first

# All slices are in memory at once, with one more copy: 7 x 7 elements are the limit.
_MOST_SLICES = 49


def places_of_maxima(op: OpContext, x: Tensor, window: Window, given: Window) -> Tensor:
    """Emit the node's second output: the index of the maximum of each window.

    Indices are offsets in the whole input; of equal elements the first counts. A window in the
    padding without an element above the minimum finite number has no index.

    Args:
        op: The pooling.
        x: (n, ..., c), padded already with a value that no element is below.
        window: Without padding; entirely inside of x everywhere.
        given: The same as the node states it, which says where in the input windows begin.

    Raises:
        UnsupportedOpError: The window has too many elements.
    """
    count = math.prod(window.kernel)
    if count > _MOST_SLICES:
        raise op.unsupported(
            f"the indices of the maxima of a kernel {window.kernel} would take {count} slices, "
            f"and at most {_MOST_SLICES} can be converted"
        )
    counts = window.counts(x.shape[1:-1])
    op.reserve_constant((2, *counts))  # 64-bit integers, like the planes
    op.reserve_constant((2, *op.spec(0).shape[:2]))
    taps = [op.step("slice", "StridedSlice", [x], ranges=r) for r in _ranges(x, window, counts)]
    packed = op.step("slices", "Pack", taps, axis=len(x.shape))
    found = op.step("greatest", "Argmax", [packed], axis=len(x.shape))
    offsets, starts, planes = _offsets(op, given, counts)
    table = op.static("offsets", offsets, DType.INT_32)
    places = op.step("offset", "Gather", [table, found], axis=0)
    places = (Expr(op, places) + starts + planes).tensor
    first = op.step("channels_first", "Transpose", [places], perm=to_first(len(x.shape)))
    rank = len(op.spec(0).shape)
    shape = (*first.shape[:2], *first.shape[-(rank - 2) :])
    whole = reshaped(op, "row_of_places", first, shape)
    return op.emit("Cast", [whole], output=1, spec=Spec(DType.INT_64, shape))


def _ranges(x: Tensor, window: Window, counts: Shape) -> list[list[tuple[int, int, int]]]:
    """Return the slice of the padded input for each element of the window."""
    ranges = []
    for tap in np.ndindex(*window.kernel):
        rows = [(0, x.shape[0], 1)]
        for place, dilation, stride, n in zip(
            tap, window.dilations, window.strides, counts, strict=True
        ):
            rows.append((place * dilation, place * dilation + (n - 1) * stride + 1, stride))
        ranges.append([*rows, (0, x.shape[-1], 1)])
    return ranges


def _offsets(op: OpContext, given: Window, counts: Shape) -> tuple[Array, Array, Array]:
    """Return the terms of an index: by element, (1, ..., 1) by window and (n, 1, ..., c)."""
    samples, channels, *found = op.spec(0).shape
    axes = len(counts)
    spatial = (1,) * (axes - len(found)) + tuple(found)
    # in column-major order the first spatial dimension is the one whose elements are neighbors
    ordered = range(axes) if op.attr.integer("storage_order", 0) else range(axes)[::-1]
    steps, size = [0] * axes, 1
    for axis in ordered:
        steps[axis], size = size, size * spatial[axis]
    taps = np.array(list(np.ndindex(*given.kernel)), np.int64)
    offsets = taps @ (np.array(given.dilations) * steps)
    starts = np.zeros((), np.int64)
    for n, stride, (before, _), step in zip(counts, given.strides, given.pads, steps, strict=True):
        starts = np.add.outer(starts, (np.arange(n) * stride - before) * step)
    planes = np.arange(samples * channels).reshape(samples, *(1,) * axes, channels) * size
    return offsets, starts[None, ..., None], planes
