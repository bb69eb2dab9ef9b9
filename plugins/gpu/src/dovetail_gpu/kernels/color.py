"""Conversions between color formats of images."""

from __future__ import annotations

from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real
from dovetail_gpu.launching import GROUP, launch
from dovetail_gpu.layouts import element_of, read, table, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "Nv12ToRgb")
@KERNELS.register(STANDARD, "Nv21ToRgb")
def planar_to_rgb(call: KernelCall) -> Step | None:
    """Run Nv12ToRgb and Nv21ToRgb on real numbers: one work item for each pixel."""
    if not are_real(call):
        return None
    result, op = call.outputs[0].spec, call.op
    n, height, width, _ = result.shape
    element = element_of(result)
    x, y = read(call, 0, element), write(call)
    factors = table(call, op.factors, Element.FLOAT)
    pixels = n * height * width
    u_at = op.chroma_order[0]
    source = Source.of("color", lines=type_lines(element))
    arguments = [x, y, factors, pixels, height, width, u_at]
    return launch(call, source, "yuv_to_rgb", arguments, (pixels,), (GROUP,))
