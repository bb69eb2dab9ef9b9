"""Changes of type."""

from __future__ import annotations

import functools

import numpy as np

from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE


@KERNELS.register(PACKAGE, "Cast")
def cast(call: KernelCall) -> Step | None:
    """Cast, except to 4-bit types, which are computed in bytes that hold more."""
    if call.outputs[0].dtype.is_packed:
        return None
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        arrays = buffers.array(out), buffers.array(x)
        return functools.partial(np.copyto, *arrays, casting="unsafe")

    return call.step(bind)
