"""Local response normalization."""

from __future__ import annotations

import math

from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.elements import VECTOR
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real
from dovetail_gpu.kernels.pooling import lrn_within, power_line
from dovetail_gpu.launching import Argument, launch
from dovetail_gpu.layouts import element_of, read, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_opset import STANDARD
from dovetail_opset.ops.local_response import LrnRegion

_GROUP = (8, 8)


@KERNELS.register(STANDARD, "Lrn")
def lrn(call: KernelCall) -> Step | None:
    """Run Lrn; None within channels of more than two spatial axes."""
    if call.op.region is LrnRegion.WITHIN_CHANNEL:
        return lrn_within(call)
    if not are_real(call):
        return None
    shape, op = call.spec(0).shape, call.op
    channels, rows = shape[-1], math.prod(shape[:-1])
    element = element_of(call.outputs[0].spec)
    x, y = read(call, 0, element), write(call)
    radius = min(op.radius, channels)
    arguments: list[Argument] = [x, y, rows, channels, radius]
    arguments += [float(number) for number in (op.alpha, op.beta, op.bias)]
    source = Source.of("lrn", {}, type_lines(element) + power_line(op.beta))
    return launch(call, source, "lrn", arguments, (-(-channels // VECTOR), rows), _GROUP)
