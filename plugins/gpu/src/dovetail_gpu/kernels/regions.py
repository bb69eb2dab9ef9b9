"""RoiAlign and HeatMapMaxKeyPoint."""

from __future__ import annotations

from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real, pixel_range
from dovetail_gpu.launching import Argument, launch
from dovetail_gpu.layouts import all_real, element_of, read, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_opset import STANDARD

_MOST_SAMPLES = 1 << 16  # of a bin along an axis, as in the op


@KERNELS.register(STANDARD, "RoiAlign")
def roi_align(call: KernelCall) -> Step | None:
    """Run RoiAlign; regions that the op rejects result in NaN, since a device cannot raise."""
    x_spec, result = call.spec(0), call.outputs[0].spec
    if not all_real((x_spec, call.spec(1), result)):
        return None
    element, op = element_of(result), call.op
    x, regions = read(call, 0, element), read(call, 1, Element.FLOAT)
    images, y = read(call, 2, Element.INT), write(call)
    _, out_height, out_width, channels = result.shape
    rows = result.shape[0] * out_height
    ratio_y, ratio_x = (float(ratio) for ratio in op.img_size_ratio)
    arguments: list[Argument] = [x, regions, images, y, rows, *x_spec.shape, out_height, out_width]
    arguments += [op.num_samples_y, op.num_samples_x, int(op.aligned), int(op.allow_invalid_roi)]
    arguments += [_MOST_SAMPLES, ratio_y, ratio_x]
    source = Source.of("regions", {}, type_lines(element))
    return launch(call, source, "roi_align", arguments, *pixel_range(rows, out_width, channels))


@KERNELS.register(STANDARD, "HeatMapMaxKeyPoint")
def peaks(call: KernelCall) -> Step | None:
    """Run HeatMapMaxKeyPoint."""
    if not are_real(call):
        return None
    images, height, width, points = call.spec(0).shape
    element = element_of(call.outputs[0].spec)
    maps, boxes = read(call, 0, element), read(call, 1, element)
    scores, positions = write(call), write(call, 1)
    count = images * points
    arguments: list[Argument] = [maps, boxes, scores, positions, count, height, width, points]
    source = Source.of("regions", {}, type_lines(element))
    return launch(call, source, "peaks", arguments, (count,), (8,))
