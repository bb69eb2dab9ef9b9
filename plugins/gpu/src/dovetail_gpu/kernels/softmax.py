"""Softmax and LogSoftmax along an axis."""

from __future__ import annotations

import math

from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.elements import VECTOR
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real, lanes, row_launch
from dovetail_gpu.launching import Argument, launch_all
from dovetail_gpu.layouts import element_of, read, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "Softmax")
@KERNELS.register(STANDARD, "LogSoftmax")
def softmax(call: KernelCall) -> Step | None:
    """Run a softmax or its logarithm."""
    if not are_real(call):
        return None
    shape, axis, beta = call.spec(0).shape, call.op.axis, float(call.op.beta)
    outer, size, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    element = element_of(call.outputs[0].spec)
    x, y = read(call, 0, element), write(call)
    sign = -1.0 if beta < 0 else 1.0
    defines: dict[str, int | str] = {"GROUP": lanes()}
    defines["LOGARITHM"] = int(call.head.op_type == "LogSoftmax")
    source = Source.of(("groups", "softmax"), defines, type_lines(element))
    if inner == 1:
        rows: list[Argument] = [x, y, size, beta, sign]
        return launch_all(call, [row_launch(source, "rows", rows, outer)])
    count = outer * -(-inner // VECTOR)
    columns: list[Argument] = [x, y, size, inner, beta, sign]
    return launch_all(call, [row_launch(source, "columns", columns, count)])
