"""Softmax.

LogSoftmax is left to NumPy: the library's results close to 0 are wrong by up to 4e-6. In a row with
NaN or infinity the library leaves numbers, so a step checks its result after each run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec.structs import replace

from dovetail.runtime.plan import (
    Bind,
    Bound,
    Buffers,
    Data,
    KernelCall,
    PlanRecorder,
    RecipeError,
    Source,
    Step,
    Value,
)
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import FORWARD_INFERENCE, SOFTMAX_ACCURATE, Algorithm, Arg
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.elementwise import eltwise_description
from dovetail_onednn.execution import Argument, Work
from dovetail_onednn.layouts import Narrow, dense, input_type, narrow_layout, type_of, vector
from dovetail_onednn.nan import elements, is_nan, set_nan
from dovetail_onednn.nan_search import NanSearch
from dovetail_onednn.primitives import ENGINE, Description, Primitive, PrimitiveDesc
from dovetail_onednn.recipes import BUILDERS
from dovetail_onednn.steps import Arguments, execute, is_slow

_SOFTMAX = "onednn.softmax"


def softmax(call: KernelCall) -> Step | None:
    """Run Softmax along the last axis; see `Kernel.make`."""
    shape, axis = call.spec(0).shape, call.op.axis
    # along other axes than the last the library only has generic code
    if not is_float32(call) or math.prod(shape[axis + 1 :]) != 1:
        return None
    rows = dense((math.prod(shape[:axis]), shape[axis]))
    described = rows.of_type(input_type(call))
    with PrimitiveDesc(_description(described)) as desc:
        if is_slow(desc):
            return None
        if call.op.beta != 1:
            return _scaled(call, Primitive(desc), described, narrow_layout(call))
        arguments = Arguments(call, desc)
        arguments.read(Arg.SOURCE, 0, rows)
        arguments.write(Arg.DESTINATION, 0, rows)
        return _with_nan(arguments.step(in_place=[(0, 0)]), shape[axis])


def _description(rows: MemoryDesc) -> Description:
    return Description(
        "softmax_forward",
        (ENGINE, FORWARD_INFERENCE, SOFTMAX_ACCURATE, rows, rows, 1),
        lambda: f"a {rows.type.text} softmax of the rows of {rows.key}",
    )


def _scaled(
    call: KernelCall, primitive: Primitive, rows: MemoryDesc, layout: Narrow | None
) -> Step:
    """Return the step that multiplies by beta, then computes the softmax in place in the result."""
    flat = vector(math.prod(rows.dims)).of_type(rows.type)
    x, out = call.read(0, layout), call.write(0, layout)
    description = eltwise_description(Eltwise(Algorithm.LINEAR, call.op.beta), flat)
    with PrimitiveDesc(description) as desc:
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
    search = NanSearch.of(target.nbytes, type_of(target.layout))
    return replace(step, bind=_RowsWithNan(step.bind, target, width, search))


class _RowsWithNan:
    """The bind of a softmax that sets all elements of a row to NaN if one is NaN.

    Args:
        softmax: The bind of the softmax.
        target: Its result.
        width: Elements of a row.
        search: The search for NaN in the result.
    """

    def __init__(self, softmax: Bind, target: Value, width: int, search: NanSearch) -> None:
        self._softmax, self._target, self._width, self._search = softmax, target, width, search

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        softmax, width, kind = self._softmax(buffers), self._width, type_of(self._target.layout)
        result = elements(buffers.array(self._target), kind)
        found = self._search.bind(result)

        def run() -> None:
            softmax()
            if found():
                rows = result.reshape(-1, width)
                set_nan(rows, np.any(is_nan(rows), axis=1), kind)

        return run

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        name, data = recorder.inner(self._softmax)
        target = recorder.value(self._target)
        search = self._search.record(recorder)
        return _SOFTMAX, SoftmaxData(name, data, target, self._width, search)


class SoftmaxData(Data, frozen=True):
    """A softmax, its result, the elements of a row, and the primitive of its `NanSearch`."""

    builder: str
    softmax: Any
    target: int
    width: int
    search: int | None


@BUILDERS.builds(_SOFTMAX, SoftmaxData)
def _rows_with_nan(data: SoftmaxData, source: Source) -> _RowsWithNan:
    target = source.value(data.target)
    if data.width < 1 or math.prod(target.spec.shape) % data.width:
        raise RecipeError(f"'{target.name}' has no rows of {data.width} elements")
    search = NanSearch.restored(data.search, source, target)
    return _RowsWithNan(source.bind(data.builder, data.softmax), target, data.width, search)
