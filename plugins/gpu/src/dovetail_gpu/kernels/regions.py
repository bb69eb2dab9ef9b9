"""Regions of feature maps, and key points in heat maps."""

from __future__ import annotations

import math

from dovetail.ir import DType
from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS, PACKAGE
from dovetail_gpu.kernels._rows import is_real
from dovetail_gpu.launching import Argument, launch
from dovetail_gpu.layouts import element_of, read, write
from dovetail_gpu.programs import Source, type_lines

_GROUP = (8,)


@KERNELS.register(PACKAGE, "RoiAlign")
def roi_align(call: KernelCall) -> Step | None:
    """Run RoiAlign.

    No error is possible during a run: the number of an image that does not exist is clamped, and
    for invalid regions the formulas apply.
    """
    x, y = call.spec(0), call.outputs[0].spec
    if not all(map(is_real, (x, call.spec(1), y))):
        return None
    if call.spec(2).dtype not in (DType.INT_32, DType.UINT_32) or 0 in x.shape:
        return None
    element, op = element_of(y), call.op
    bins = math.prod(y.shape[:3])
    ratio_y, ratio_x = (float(n) for n in op.img_size_ratio)
    samples = int(op.num_samples_y), int(op.num_samples_x)
    arguments: list[Argument] = [
        read(call, 0, element),
        read(call, 1, element),
        read(call, 2, Element.INT),
        write(call),
        *(bins, *x.shape, *y.shape[1:3], *samples, int(bool(op.aligned)), ratio_y, ratio_x),
    ]
    return launch(call, _source(element), "align", arguments, (bins,), _GROUP)


@KERNELS.register(PACKAGE, "HeatMapMaxKeyPoint")
def key_points(call: KernelCall) -> Step | None:
    """Run HeatMapMaxKeyPoint."""
    if not all(map(is_real, (*call.head.ins, *call.head.outs))):
        return None
    n, height, width, channels = call.spec(0).shape
    element = element_of(call.outputs[0].spec)
    values, points = write(call), write(call, 1)
    arguments: list[Argument] = [
        read(call, 0, element),
        read(call, 1, element),
        values,
        points,
        *(n * channels, height, width, channels),
    ]
    return launch(call, _source(element), "peaks", arguments, (n * channels,), _GROUP)


def _source(element: Element) -> Source:
    return Source.of("regions", {}, type_lines(element))
