"""Scattering by index, and cumulative sums."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.boxes import Box, copied, described, move_group
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels.indexing import indices
from dovetail_gpu.kernels.movement import moved_element
from dovetail_gpu.launching import GROUP, Argument, Launch, launch, launch_all
from dovetail_gpu.layouts import read, scratch, table, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_opset import STANDARD

_COMBINE = {
    "ADD": "((a) + (b))",
    "MUL": "((a) * (b))",
    # a NaN is the maximum, as in NumPy
    "MAX": "((a) >= (b) || (a) != (a) ? (a) : (b))",
}


@KERNELS.register(STANDARD, "ScatterNd")
def scatter_nd(call: KernelCall) -> Step | None:
    """Run ScatterNd."""
    depth = call.spec(1).shape[-1]
    sizes, slices = call.spec(0).shape[:depth], call.spec(0).shape[depth:]
    counts = math.prod(call.spec(1).shape[:-1]), math.prod(slices)
    if 0 in sizes and counts[0]:
        return None
    return _scattered(call, sizes, sizes or (1,), (depth, 0, 0), counts, by_element=0)


@KERNELS.register(STANDARD, "ScatterElements")
def scatter_elements(call: KernelCall) -> Step | None:
    """Run ScatterElements."""
    shape, given, axis = call.spec(0).shape, call.spec(1).shape, call.op.axis
    if not shape[axis] and 0 not in given:
        return None
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    axes = [(n, 0 if k == axis else strides[k], 0) for k, n in enumerate(given)]
    numbers = len(shape), shape[axis], strides[axis]
    counts = math.prod(given), 1
    return _scattered(call, shape[axis : axis + 1], axes[::-1], numbers, counts, by_element=1)


def _scattered(
    call: KernelCall,
    sizes: Shape,
    axes: ArrayLike,
    numbers: tuple[int, int, int],
    counts: tuple[int, int],
    *,
    by_element: int,
) -> Step | None:
    """Return the step that copies the data, and then updates slices of it.

    Args:
        call: The call.
        sizes: Sizes of the indexed axes.
        axes: Their table; see `scatter.cl`.
        numbers: Depth, size and stride of the template.
        counts: Number of updates, and of elements in each.
        by_element: Whether it is ScatterElements.
    """
    element, reduction = moved_element(call), call.op.reduction.name
    if element is None or (reduction != "NONE" and not _computes(element)):
        return None
    data, index = read(call, 0, element), indices(call, 1, sizes)
    x = read(call, 2, element)
    target: list[Argument] = [index, table(call, axes), *numbers, *counts]
    y = write(call)
    whole = described(call.spec(0).shape)
    first = copied(call, data, y, Box.of(whole, whole, whole, whole))
    defines: dict[str, int | str] = {"BY_ELEMENT": by_element, "E": "uint", "E_BYTES": 4}
    names = ("box", "counted", "scatter")
    updates, inner = counts
    if reduction != "NONE":
        combine = f"#define COMBINE(a, b) {_COMBINE[reduction]}\n"
        lines = type_lines(element) + _accumulator(element) + combine
        source = Source.of(names, defines, lines)
        return launch_all(
            call, [first, Launch(source, "combine", [x, y, *target], (inner,), move_group())]
        )
    # elements are copied as they are: halves too, whose type has no operations
    lines = f"#define S {'ushort' if element is Element.HALF else element.text}\n"
    source = Source.of(names, defines, lines)
    slices = whole.size // inner if inner else 0
    last = scratch(call, Element.INT, slices)
    launches = [
        first,
        Launch(source, "clear", [last, slices], (slices,), (GROUP,)),
        Launch(source, "claim", [last, *target], (updates if inner else 0,), (GROUP,)),
        Launch(source, "replace", [last, x, y, *target], (updates if inner else 0,), (GROUP,)),
    ]
    return launch_all(call, launches)


@KERNELS.register(STANDARD, "CumulativeSum")
def cumulative_sum(call: KernelCall) -> Step | None:
    """Run CumulativeSum: one work item for each sum."""
    element = moved_element(call)
    if element is None or not _computes(element):
        return None
    shape, op = call.spec(0).shape, call.op
    x, y = read(call, 0, element), write(call)
    outer, size, inner = (
        math.prod(shape[: op.axis]),
        shape[op.axis],
        math.prod(shape[op.axis + 1 :]),
    )
    first, step = (size - 1, -1) if op.reverse else (0, 1)
    source = Source.of("cumulative", lines=type_lines(element) + _accumulator(element))
    arguments: list[Argument] = [x, y, outer, size, inner, first, step, int(op.exclusive)]
    return launch(call, source, "cumulative_sum", arguments, (outer * inner,), move_group())


def _computes(element: Element) -> bool:
    return element in (Element.FLOAT, Element.HALF, Element.INT, Element.UINT)


def _accumulator(element: Element) -> str:
    return f"#define ACCUMULATOR {'float' if element.is_float else element.text}\n"
