"""Resizing of images: weighted elements along each axis, two axes at once."""

from __future__ import annotations

import math

import numpy as np

from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real, pixel_range
from dovetail_gpu.launching import Argument, Launch, launch_all
from dovetail_gpu.layouts import element_of, read, scratch, table, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_opset import STANDARD
from dovetail_opset.resampling import Taps


@KERNELS.register(STANDARD, "Resize")
@KERNELS.register(STANDARD, "ResizeBilinear")
@KERNELS.register(STANDARD, "ResizeNearestNeighbor")
def resize(call: KernelCall) -> Step | None:
    """Run a resize: the last two spatial axes at once, others one by one before."""
    if not are_real(call):
        return None
    shape, result = list(call.spec(0).shape), call.outputs[0].shape
    element = element_of(call.outputs[0].spec)
    pairs = [(axis, axis) for axis in range(1, len(shape) - 3)]
    last = len(shape) - 2
    pairs.append((max(1, last - 1), last))
    source, launches = read(call, 0, element), []
    for first, second in pairs:
        outer, inner = math.prod(shape[:first]), math.prod(shape[second + 1 :])
        rows = _taps(call, first, shape[first], result[first])
        columns = _taps(call, second, shape[second], result[second])
        if first == second:
            rows = Taps(np.zeros((1, 1), np.intp))
        size = (1 if first == second else shape[first], shape[second], inner)
        shape[first : second + 1] = result[first : second + 1]
        target = write(call) if second == last else scratch(call, element, math.prod(shape))
        launches.append(_launch(call, (source, target), outer, size, (rows, columns), element))
        source = target
    return launch_all(call, launches)


def _taps(call: KernelCall, axis: int, size: int, new: int) -> Taps:
    """Return the weighted elements of an axis; an axis that does not change is copied."""
    found: Taps = call.op.taps(size, new) if size != new else Taps(np.arange(size)[:, None])
    return found


def _launch(
    call: KernelCall,
    tensors: tuple[Value, Value],
    outer: int,
    size: tuple[int, int, int],
    taps: tuple[Taps, Taps],
    element: Element,
) -> Launch:
    """Return the launch that resamples height and width of (outer, height, width, inner)."""
    tables: list[Argument] = []
    for each in taps:
        weights = np.ones(each.indices.shape) if each.weights is None else each.weights
        tables += [
            table(call, each.indices),
            table(call, weights, Element.FLOAT),
        ]
    counts = [len(each.indices) for each in taps]
    rows, inner = outer * counts[0], size[2]
    arguments: list[Argument] = [*tensors, *tables, rows, *size, *counts]
    arguments += [each.indices.shape[1] for each in taps]
    arguments.append(int(all(each.weights is None for each in taps)))
    source = Source.of("resample", {}, type_lines(element))
    return Launch(source, "resample", arguments, *pixel_range(rows, counts[1], inner))
