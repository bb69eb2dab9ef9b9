"""Ops that move slices and elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.boxes import Box, boxed, described, move_group, move_source, row_blocks
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels.movement import moved_element
from dovetail_gpu.launching import Argument, launch, launch_all
from dovetail_gpu.layouts import constant_of, element_of, read, table, write
from dovetail_gpu.programs import Source
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "Gather")
def gather(call: KernelCall) -> Step | None:
    """Run Gather."""
    element = moved_element(call)
    if element is None:
        return None
    shape, axis = call.spec(0).shape, call.op.axis
    if not shape[axis] and 0 not in call.spec(1).shape:
        return None
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    rows = math.prod(call.spec(1).shape)
    return _taken(call, element, (outer, rows, inner), [shape[axis]], by_batch=False)


@KERNELS.register(STANDARD, "GatherNd")
def gather_nd(call: KernelCall) -> Step | None:
    """Run GatherNd."""
    element = moved_element(call)
    if element is None:
        return None
    shape, indices, batch = call.spec(0).shape, call.spec(1).shape, call.op.batch_dims
    end = batch + indices[-1]
    if 0 in shape[batch:end] and 0 not in call.outputs[0].shape:
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
    x, index, y = read(call, 0, element), indices(call, 1, sizes), write(call)
    axes = table(call, sizes or [1])
    tall, wide, items = row_blocks(outer * rows, inner)
    depth = len(sizes)
    step = rows * depth if by_batch else 0
    numbers = depth, outer, rows, inner, math.prod(sizes), step, tall, wide
    arguments: list[Argument] = [x, y, index, axes, *numbers]
    return launch(call, _source(x), "take", arguments, (items,), move_group())


@KERNELS.register(STANDARD, "GatherElements")
def gather_elements(call: KernelCall) -> Step | None:
    """Run GatherElements."""
    element = moved_element(call)
    if element is None:
        return None
    shape, axis = call.spec(0).shape, call.op.axis
    if not shape[axis] and 0 not in call.spec(1).shape:
        return None
    whole, result = described(shape), described(call.spec(1).shape)
    # the element at index 0, to which the kernel adds the index
    first = whole[tuple(slice(1 if k == axis else n) for k, n in enumerate(result.shape))]
    box = Box.of(np.broadcast_to(first, result.shape), result, whole, result)
    x, index, y = read(call, 0, element), indices(call, 1, shape[axis : axis + 1]), write(call)
    stride = math.prod(shape[axis + 1 :])
    source, more = _source(x), [index, shape[axis], stride]
    return launch_all(call, [boxed(call, x, y, box, "take_elements", source, more)])


@KERNELS.register(STANDARD, "BatchPermutation")
def batch_permutation(call: KernelCall) -> Step | None:
    """Run BatchPermutation."""
    element = moved_element(call)
    if element is None:
        return None
    (batch, *slices), (rows,) = call.spec(0).shape, call.spec(1).shape
    x, index, y = read(call, 0, element), indices(call, 1), write(call)
    arguments: list[Argument] = [x, y, index, rows, batch, math.prod(slices)]
    return launch(call, _source(x), "permute_batch", arguments, (rows,), move_group())


@KERNELS.register(STANDARD, "OneHot")
def one_hot(call: KernelCall) -> Step | None:
    """Run OneHot."""
    element = moved_element(call)
    if element is None:
        return None
    shape, op, spec = call.spec(0).shape, call.op, call.outputs[0].spec
    index, y = indices(call, 0), write(call)
    values = constant_of(call, [op.on_value, op.off_value], spec, element)
    outer, inner = math.prod(shape[: op.axis]), math.prod(shape[op.axis :])
    is_signed = int(call.spec(0).dtype is not DType.UINT_32)
    arguments: list[Argument] = [index, y, values, outer, op.depth, inner, is_signed]
    return launch(call, _source(y), "one_hot", arguments, (outer * op.depth,), move_group())


def _source(value: Value) -> Source:
    return move_source(value, "counted", "indexing")


def indices(call: KernelCall, index: int, sizes: Sequence[int] = ()) -> Value:
    """Declare that a step reads indices, as integers of 32 bits.

    Kernels clamp indices, since they cannot raise; those of constants are checked here.

    Args:
        call: The call.
        index: Number of the input, (..., len(sizes)) or, for a single axis, of any shape.
        sizes: Sizes of the indexed axes; none if every index is valid.

    Raises:
        OpError: An index of a constant is out of range.
    """
    known = call.static(index)
    if known is not None and known.size and sizes:
        _check_range(known.reshape(-1, len(sizes)), sizes, call.head.node.where)
    given = element_of(call.spec(index))
    return read(call, index, given if given in (Element.INT, Element.UINT) else Element.INT)


def _check_range(known: Array, sizes: Sequence[int], where: str) -> None:
    """Raise for the first index out of range of rows (n, len(sizes))."""
    for column, size in zip(known.T, sizes, strict=True):
        for found in (int(column.min()), int(column.max())):
            if not -size <= found < size:
                raise OpError(
                    f"index {found} is out of range on an axis of size {size}",
                    where=where,
                    hint=f"an index must be between {-size} and {size - 1}",
                )
