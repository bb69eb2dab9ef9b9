"""Softmax and its logarithm, in float32."""

from __future__ import annotations

import math

from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import FORWARD_INFERENCE, Arg, SoftmaxAlgorithm
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import dense
from dovetail_onednn.primitives import Attributes, PrimitiveDesc
from dovetail_onednn.steps import Places, is_float32, is_slow


def softmax(call: KernelCall) -> Step | None:
    """Runs Softmax along the last axis; see `Kernel.make`."""
    return _step(call, SoftmaxAlgorithm.SOFTMAX)


def log_softmax(call: KernelCall) -> Step | None:
    """Runs LogSoftmax along the last axis; see `Kernel.make`."""
    return _step(call, SoftmaxAlgorithm.LOG_SOFTMAX)


def _step(call: KernelCall, algorithm: SoftmaxAlgorithm) -> Step | None:
    shape, axis = call.spec(0).shape, call.op.axis
    # along other axes than the last the library has but its generic code
    if not is_float32(call) or call.op.beta != 1 or math.prod(shape[axis + 1 :]) != 1:
        return None
    rows = dense((math.prod(shape[:axis]), shape[axis]))
    with (
        Attributes() as attributes,
        PrimitiveDesc(
            "softmax_forward",
            engine(),
            FORWARD_INFERENCE,
            algorithm,
            rows,
            rows,
            1,
            attributes,
            description=f"a float32 {algorithm.name.lower()} of the rows of {rows.key}",
        ) as desc,
    ):
        if is_slow(desc):
            return None
        places = Places(call, desc)
        places.read(Arg.SOURCE, 0, rows)
        places.write(Arg.DESTINATION, 0, rows)
        return places.step(in_place=[(0, 0)])
