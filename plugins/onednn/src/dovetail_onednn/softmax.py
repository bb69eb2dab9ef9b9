"""Softmax.

LogSoftmax is left to NumPy: the library's results close to 0 are wrong by up to 4e-6. In a row with
NaN or infinity the library leaves numbers, so a step checks its result after each run.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_onednn._api import FORWARD_INFERENCE, SOFTMAX_ACCURATE, Algorithm, Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.elementwise import eltwise_desc
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import Narrow, dense, input_type, narrow_layout, type_of, vector
from dovetail_onednn.nan import elements, is_nan, set_nan
from dovetail_onednn.nan_search import NanSearch
from dovetail_onednn.primitives import Attributes, Eltwise, Primitive, PrimitiveDesc
from dovetail_onednn.steps import Argument, Arguments, Work, execute, is_float32, is_slow


def softmax(call: KernelCall) -> Step | None:
    """Run Softmax along the last axis; see `Kernel.make`."""
    shape, axis = call.spec(0).shape, call.op.axis
    # along other axes than the last the library only has generic code
    if not is_float32(call) or math.prod(shape[axis + 1 :]) != 1:
        return None
    rows = dense((math.prod(shape[:axis]), shape[axis]))
    described = rows.of_type(input_type(call))
    with _described(described) as desc:
        if is_slow(desc):
            return None
        if call.op.beta != 1:
            return _scaled(call, Primitive(desc), described, narrow_layout(call))
        arguments = Arguments(call, desc)
        arguments.read(Arg.SOURCE, 0, rows)
        arguments.write(Arg.DESTINATION, 0, rows)
        return _with_nan(arguments.step(in_place=[(0, 0)]), shape[axis])


def _described(rows: MemoryDesc) -> PrimitiveDesc:
    with Attributes() as attributes:
        return PrimitiveDesc(
            "softmax_forward",
            engine(),
            FORWARD_INFERENCE,
            SOFTMAX_ACCURATE,
            rows,
            rows,
            1,
            attributes,
            description=f"a {rows.type.text} softmax of the rows of {rows.key}",
        )


def _scaled(
    call: KernelCall, primitive: Primitive, rows: MemoryDesc, layout: Narrow | None
) -> Step:
    """Return the step that multiplies by beta, then computes the softmax in place in the result."""
    flat = vector(math.prod(rows.dims)).of_type(rows.type)
    x, out = call.read(0, layout), call.write(0, layout)
    with eltwise_desc(Eltwise(Algorithm.LINEAR, call.op.beta), flat) as desc:
        product = Primitive(desc)
    step = execute(
        call,
        Work(product, {Arg.SOURCE: Argument(flat, x), Arg.DESTINATION: Argument(flat, out)}),
        Work(primitive, {Arg.SOURCE: Argument(rows, out), Arg.DESTINATION: Argument(rows, out)}),
        in_place=[(0, 0)],
    )
    return _with_nan(step, rows.dims[1])


def _with_nan(step: Step, width: int) -> Step:
    """Return the step of a softmax that sets all elements of a row to NaN if one is NaN."""
    target = step.writes[0]
    kind = type_of(target.layout)
    search = NanSearch(target.nbytes, kind)

    def bind(buffers: Buffers) -> Bound:
        softmax = step.bind(buffers)
        result = elements(buffers.array(target), kind)
        found = search.bind(result)

        def run() -> None:
            softmax()
            if found():
                rows = result.reshape(-1, width)
                set_nan(rows, np.any(is_nan(rows), axis=1), kind)

        return run

    return replace(step, bind=bind)
