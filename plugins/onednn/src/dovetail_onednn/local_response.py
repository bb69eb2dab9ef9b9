"""Local response normalization."""

from __future__ import annotations

import math

from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import FORWARD_INFERENCE, LRN_ACROSS_CHANNELS
from dovetail_onednn.layouts import images, input_type
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.steps import from_one_to_one


def lrn(call: KernelCall) -> Step | None:
    """Run Lrn across channels; see `Kernel.make`."""
    op, shape = call.op, call.spec(0).shape
    if not is_float32(call) or op.region.name != "ACROSS_CHANNEL":
        return None
    rows = images((1, 1, math.prod(shape[:-1]), shape[-1]))
    described = rows.of_type(input_type(call))
    count = 2 * op.radius + 1
    alpha = op.alpha * count  # the library uses the mean of the squares, the op set their sum
    numbers = (count, float(alpha), float(op.beta), float(op.bias))
    name = f"{described.type.text} local response normalization"
    description = Description(
        "lrn_forward",
        (ENGINE, FORWARD_INFERENCE, LRN_ACROSS_CHANNELS, described, described, *numbers),
        lambda: f"a {name} over {count} of {described.key}",
    )
    with PrimitiveDesc(description) as desc:
        return from_one_to_one(call, desc, rows, rows)
