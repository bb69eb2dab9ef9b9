"""Ops that move slices and elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.boxes import Box, boxed, described, move_group, move_source, row_blocks
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS, PACKAGE
from dovetail_gpu.kernels.movement import moved_element
from dovetail_gpu.launching import launch, launch_all
from dovetail_gpu.layouts import element_of, layout_for, read, write


@KERNELS.register(PACKAGE, "Gather")
def gather(call: KernelCall) -> Step | None:
    """Run Gather."""
    element = moved_element(call)
    if element is None:
        return None
    shape, axis = call.spec(0).shape, call.op.axis
    if not shape[axis]:
        return None
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    rows = math.prod(call.spec(1).shape)
    return _taken(call, element, (outer, rows, inner), [shape[axis]], by_batch=False)


@KERNELS.register(PACKAGE, "GatherNd")
def gather_nd(call: KernelCall) -> Step | None:
    """Run GatherNd."""
    element = moved_element(call)
    if element is None:
        return None
    shape, indices, batch = call.spec(0).shape, call.spec(1).shape, call.op.batch_dims
    end = batch + indices[-1]
    if 0 in shape[batch:end]:
        return None
    outer, rows = math.prod(shape[:batch]), math.prod(indices[batch:-1])
    counts = outer, rows, math.prod(shape[end:])
    return _taken(call, element, counts, shape[batch:end], by_batch=True)


def _taken(
    call: KernelCall,
    element: Element,
    counts: tuple[int, int, int],
    sizes: Sequence[int],
    *,
    by_batch: bool,
) -> Step:
    """Return the step that takes slices.

    Args:
        call: The call.
        element: Type of the elements.
        counts: Size of the batch, rows of indices for each, and elements of a slice.
        sizes: Sizes of the indexed axes: the number of indices in a row.
        by_batch: Whether each batch has its own indices.
    """
    outer, rows, inner = counts
    x, index, y = read(call, 0, element), _indices(call, 1), write(call)
    table = np.array(sizes or [1], np.int32)
    constant = call.constant(table, layout_for(Element.INT, table.size))
    tall, wide, items = row_blocks(outer * rows, inner)
    depth = len(sizes)
    step = rows * depth if by_batch else 0
    arguments = [x, y, index, constant, depth, outer, rows, inner, math.prod(sizes), step]
    return launch(
        call, move_source(x, "indexing"), "take", [*arguments, tall, wide], (items,), move_group()
    )


@KERNELS.register(PACKAGE, "GatherElements")
def gather_elements(call: KernelCall) -> Step | None:
    """Run GatherElements."""
    element = moved_element(call)
    if element is None:
        return None
    shape, axis = call.spec(0).shape, call.op.axis
    if not shape[axis]:
        return None
    whole = described(shape)
    y_view = described(call.spec(1).shape)
    index_shape = y_view.shape
    cut = [slice(1) if k == axis else slice(n) for k, n in enumerate(index_shape)]
    box = Box.of(np.broadcast_to(whole[tuple(cut)], index_shape), y_view, whole, y_view)
    x, index, y = read(call, 0, element), _indices(call, 1), write(call)
    stride = math.prod(shape[axis + 1 :])
    found = boxed(
        call, x, y, box, "take_elements", move_source(x, "indexing"), [index, shape[axis], stride]
    )
    return launch_all(call, [found])


def _indices(call: KernelCall, index: int) -> Value:
    """Read indices as integers of 32 bits."""
    given = element_of(call.spec(index))
    return read(call, index, given if given in (Element.INT, Element.UINT) else Element.INT)
