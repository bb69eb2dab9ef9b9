"""Type conversions."""

from __future__ import annotations

import functools

import numpy as np

from dovetail.ir.storage import saturate
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.kernels._registry import KERNELS, PACKAGE


@KERNELS.register(PACKAGE, "Cast")
def cast(call: KernelCall) -> Step | None:
    """Cast to types whose values NumPy converts alike on every processor.

    Casts to 4-bit types, and of floats to integers, saturate: they are left to the reference. NumPy
    converts numbers out of range as the processor does.
    """
    source, target = call.spec(0).dtype, call.outputs[0].dtype
    is_truncated = source.is_float and (target.is_int or target.is_fixed_point)
    if target.is_packed or is_truncated:
        return None
    x, out = call.read(0), call.write()
    target = call.outputs[0].dtype

    def bind(buffers: Buffers) -> Bound:
        result, values = buffers.array(out), buffers.array(x)
        if values.dtype.kind == "f" and result.dtype.kind in "iu":
            # NumPy leaves NaN and what is out of range to the processor
            return lambda: np.copyto(result, saturate(values, target))
        return functools.partial(np.copyto, result, values, casting="unsafe")

    return call.step(bind)
