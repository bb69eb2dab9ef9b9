"""Local response normalization."""

from __future__ import annotations

import math

from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import FORWARD_INFERENCE, LRN_ACROSS_CHANNELS
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import images, input_type
from dovetail_onednn.primitives import Attributes, PrimitiveDesc
from dovetail_onednn.steps import from_one_to_one, is_float32


def lrn(call: KernelCall) -> Step | None:
    """Run Lrn across channels; see `Kernel.make`."""
    op, shape = call.op, call.spec(0).shape
    if not is_float32(call) or op.region.name != "ACROSS_CHANNEL":
        return None
    rows = images((1, 1, math.prod(shape[:-1]), shape[-1]))
    described = rows.of_type(input_type(call))
    count = 2 * op.radius + 1
    with Attributes() as attributes:
        desc = PrimitiveDesc(
            "lrn_forward",
            engine(),
            FORWARD_INFERENCE,
            LRN_ACROSS_CHANNELS,
            described,
            described,
            count,
            op.alpha * count,  # the library uses the mean of the squares, the op set their sum
            op.beta,
            op.bias,
            attributes,
            description=f"a {described.type.text} local response normalization over {count} of "
            f"{described.key}",
        )
    return from_one_to_one(call, desc, rows, rows)
