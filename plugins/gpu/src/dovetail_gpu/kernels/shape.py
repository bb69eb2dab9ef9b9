"""Shapes as values, and tensors of one value."""

from __future__ import annotations

import numpy as np

from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.boxes import Box, copied, described
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.launching import launch_all
from dovetail_gpu.layouts import constant_of, element_of, write
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "Shape")
def shape(call: KernelCall) -> Step:
    """Run Shape: copy a constant."""
    found, spec = call.spec(0).shape[call.op.start : call.op.end], call.outputs[0].spec
    x, y = constant_of(call, found, spec, element_of(spec)), write(call)
    line = described((len(found),))
    return launch_all(call, [copied(call, x, y, Box.of(line, line, line, line))])


@KERNELS.register(STANDARD, "ConstantOfShape")
def constant_of_shape(call: KernelCall) -> Step | None:
    """Run ConstantOfShape, if its shape is a constant and that of the output."""
    given, spec = call.static(0), call.outputs[0].spec
    if given is None or tuple(given.tolist()) != spec.shape:
        return None
    x, y = constant_of(call, [call.op.value], spec, element_of(spec)), write(call)
    one, whole = described((1,)), described(spec.shape)
    spread = np.broadcast_to(one.reshape((1,) * len(spec.shape)), spec.shape)
    return launch_all(call, [copied(call, x, y, Box.of(spread, whole, one, whole))])
