"""Softmax.

LogSoftmax is left to NumPy: the library's results close to 0 are wrong by up to 4e-6. In a row with
NaN or infinity the library leaves numbers, so a step checks its result after each run. Such rows
become NaN, or 0 if the step includes the test with which exporters replace NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Shape, Tensor, TensorKind
from dovetail.ops import NodeView
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
from dovetail_onednn.bounds import has_no_nan
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.elementwise import eltwise_description
from dovetail_onednn.execution import Argument, Work
from dovetail_onednn.layouts import (
    Narrow,
    dense,
    input_type,
    narrow_layout,
    permuted,
    type_of,
    vector,
)
from dovetail_onednn.nan import elements, is_nan, set_nan
from dovetail_onednn.nan_search import NanSearch
from dovetail_onednn.primitives import (
    ENGINE,
    Description,
    Primitive,
    PrimitiveDesc,
    reorder_primitive,
)
from dovetail_onednn.recipes import BUILDERS
from dovetail_onednn.steps import Arguments, execute, is_slow

_SOFTMAX = "onednn.softmax"
# Along another axis than the last NumPy is faster with fewer elements, or more after the axis.
_LEAST, _MOST_AFTER = 4096, 64


def can_fuse_test(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a node belongs to IsNan and ElementWiseSelect that replace NaN by 0."""
    shares = group[0].node.outputs[0]
    if len(group) == 1:
        return node.op_type == "IsNan" and node.package == group[0].package
    if len(group) > 2 or node.op_type != "ElementWiseSelect":
        return False
    condition, zero, kept = node.node.inputs
    is_test = condition is group[1].node.outputs[0] and kept is shares
    return (
        is_test
        and zero is not None
        and _is_zero(zero)
        and node.node.outputs[0].shape == shares.shape
    )


def _is_zero(tensor: Tensor) -> bool:
    return tensor.kind is TensorKind.STATIC and not tensor.values().any()


def softmax(call: KernelCall) -> Step | None:
    """Run Softmax, and a test that replaces NaN; see `Kernel.make`."""
    if not is_float32(call) or len(call.fused) == 1:
        return None
    shape, axis = call.spec(0).shape, call.op.axis
    if math.prod(shape[axis + 1 :]) != 1:
        return _along_columns(call)
    rows = dense((math.prod(shape[:axis]), shape[axis]))
    described = rows.of_type(input_type(call))
    with PrimitiveDesc(_description(described)) as desc:
        if is_slow(desc):
            return None
        if call.op.beta != 1:
            step = _scaled(call, Primitive(desc), described, narrow_layout(call))
            return _with_nan(call, step, shape[axis])
        arguments = Arguments(call, desc)
        arguments.read(Arg.SOURCE, 0, rows)
        arguments.write(Arg.DESTINATION, 0, rows)
        step = arguments.step(in_place=[(0, 0)])
        return _with_nan(call, step, shape[axis])


def _along_columns(call: KernelCall) -> Step | None:
    """Return the step along another axis than the last, for which the library has generic code.

    It moves the columns to rows and back.
    """
    shape, axis = call.spec(0).shape, call.op.axis
    sizes = before, width, after = _parts(shape, axis)
    if math.prod(sizes) < _LEAST or after > _MOST_AFTER or narrow_layout(call) is not None:
        return None
    columns, rows = permuted(sizes, (0, 2, 1)), dense((before, after, width))
    flat = dense((before * after, width))
    with PrimitiveDesc(_description(flat)) as desc:
        if is_slow(desc):
            return None
        of_rows = Primitive(desc)
    x, out, room = call.read(0), call.write(), call.scratch(rows.nbytes)
    works = [_move(Argument(columns, x), Argument(rows, room))]
    if call.op.beta != 1:
        works.append(_product(call.op.beta, flat, room, room))
    in_room = Argument(flat, room)
    works.append(Work(of_rows, {Arg.SOURCE: in_room, Arg.DESTINATION: in_room}))
    works.append(_move(Argument(rows, room), Argument(columns, out)))
    step = execute(call, *works, in_place=[(0, 0)])
    return _with_nan(call, step, width, after)


def _parts(shape: Shape, axis: int) -> tuple[int, int, int]:
    """Return the number of elements before an axis, along it and after it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _move(source: Argument, target: Argument) -> Work:
    primitive = reorder_primitive(source.desc, target.desc)
    return Work(primitive, {Arg.SOURCE: source, Arg.DESTINATION: target})


def _product(beta: float, rows: MemoryDesc, x: Value, out: Value) -> Work:
    """Return the work that multiplies all elements by beta."""
    flat = vector(math.prod(rows.dims)).of_type(rows.type)
    with PrimitiveDesc(eltwise_description(Eltwise(Algorithm.LINEAR, beta), flat)) as desc:
        product = Primitive(desc)
    return Work(product, {Arg.SOURCE: Argument(flat, x), Arg.DESTINATION: Argument(flat, out)})


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
    x, out = call.read(0, layout), call.write(0, layout)
    return execute(
        call,
        _product(call.op.beta, rows, x, out),
        Work(primitive, {Arg.SOURCE: Argument(rows, out), Arg.DESTINATION: Argument(rows, out)}),
        in_place=[(0, 0)],
    )


def _with_nan(call: KernelCall, step: Step, width: int, after: int = 1) -> Step:
    """Return the step of a softmax that sets all elements of a row to NaN or 0 if one is NaN."""
    if call.op.beta == 1 and has_no_nan(call, 0):
        return step
    target, hides = step.writes[0], bool(call.fused)
    search = NanSearch.of(target.nbytes, type_of(target.layout))
    return replace(step, bind=_RowsWithNan(step.bind, target, (width, after), search, hides=hides))


class _RowsWithNan:
    """The bind of a softmax that sets all elements of a row to NaN or 0 if one is NaN.

    Args:
        softmax: The bind of the softmax.
        target: Its result.
        sizes: Elements of a row, and between two of them.
        search: The search for NaN in the result.
        hides: Whether the row becomes 0.
    """

    def __init__(
        self,
        softmax: Bind,
        target: Value,
        sizes: tuple[int, int],
        search: NanSearch,
        *,
        hides: bool,
    ) -> None:
        self._softmax, self._target, self._sizes, self._search = softmax, target, sizes, search
        self._hides = hides

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        softmax, kind = self._softmax(buffers), type_of(self._target.layout)
        hides = self._hides
        result = elements(buffers.array(self._target), kind)
        found = self._search.bind(result)

        def run() -> None:
            softmax()
            if found():
                rows = result.reshape(-1, *self._sizes).swapaxes(1, 2)
                where = np.any(is_nan(rows), axis=2)
                if hides:
                    rows[where] = 0
                else:
                    set_nan(rows, where, kind)

        return run

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        name, data = recorder.inner(self._softmax)
        target = recorder.value(self._target)
        search = self._search.record(recorder)
        return _SOFTMAX, SoftmaxData(name, data, target, self._sizes, search, self._hides)


class SoftmaxData(Data, frozen=True):
    """A softmax, its result, what `_RowsWithNan` takes, and the primitive of its `NanSearch`."""

    builder: str
    softmax: Any
    target: int
    sizes: tuple[int, int]
    search: int | None
    hides: bool


@BUILDERS.builds(_SOFTMAX, SoftmaxData)
def _rows_with_nan(data: SoftmaxData, source: Source) -> _RowsWithNan:
    target = source.value(data.target)
    if min(data.sizes) < 1 or math.prod(target.spec.shape) % math.prod(data.sizes):
        raise RecipeError(f"'{target.name}' cannot have rows of {data.sizes} elements")
    search = NanSearch.restored(data.search, source, target)
    bind = source.bind(data.builder, data.softmax)
    return _RowsWithNan(bind, target, data.sizes, search, hides=data.hides)
