"""Conversions between color formats of images."""

from __future__ import annotations

import numpy as np

from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS, PACKAGE
from dovetail_gpu.launching import launch
from dovetail_gpu.layouts import element_of, is_encoded, layout_for, read, write
from dovetail_gpu.programs import Source, type_lines

_GROUP = 64


@KERNELS.register(PACKAGE, "Nv12ToRgb")
@KERNELS.register(PACKAGE, "Nv21ToRgb")
def planar_to_rgb(call: KernelCall) -> Step | None:
    """Run Nv12ToRgb and Nv21ToRgb on real numbers: one work item for each pixel."""
    specs = call.spec(0), call.outputs[0].spec
    if not all(spec.dtype.is_float or is_encoded(spec) for spec in specs):
        return None
    n, height, width, _ = specs[1].shape
    element, op = element_of(specs[1]), call.op
    x, y = read(call, 0, element), write(call)
    factors = op.factors.astype(np.float32)
    table = call.constant(np.ascontiguousarray(factors), layout_for(Element.FLOAT, factors.size))
    pixels = n * height * width
    u_at = op.chroma_order[0]
    source = Source.of("color", lines=type_lines(element))
    arguments = [x, y, table, pixels, height, width, u_at]
    return launch(call, source, "yuv_to_rgb", arguments, (pixels,), (_GROUP,))
