"""Elementwise ops: each by one kernel, with those of real numbers that follow as its stages."""

from __future__ import annotations

import math

from dovetail.ops import NodeView
from dovetail.runtime.plan import Branch, KernelCall, Step
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.functions import BINARY, UNARY
from dovetail_gpu.kernels._broadcast import Form, Operand, broadcast, run_of_item
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels.integers import integer_form
from dovetail_gpu.kernels.logic import COMPARISONS, LOGIC, SELECT, TESTS, logic_form
from dovetail_gpu.kernels.types import TypeForm, type_form
from dovetail_gpu.launching import GROUP, Argument, launch
from dovetail_gpu.layouts import element_of, is_stored, read, table, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_gpu.stages import StageWriter, can_fuse, first_operand, has_line, line_of, stages_of
from dovetail_opset import PACKAGE, STANDARD


def elementwise(call: KernelCall) -> Step | None:
    """Run a node and fused ones; None for types that a device does not store."""
    specs = [spec for spec in (*call.head.ins, *call.head.outs) if spec is not None]
    if not all(is_stored(spec) for spec in specs):
        return None
    first = first_operand(call.head)
    element = element_of(call.outputs[0].spec)
    if first is not None and element_of(call.spec(first)) is element:
        return _in_one_run(call, first, element)
    return _broadcast(call)


def _in_one_run(call: KernelCall, first: int, element: Element) -> Step:
    """Return the step of stages over all elements of an input of the result's shape."""
    result = call.outputs[0].spec
    writer = StageWriter(call, element)
    x = read(call, first, element)
    writer.add_head(first)
    writer.add_fused()
    stages = writer.finished()
    y = write(call)
    count, channels = math.prod(result.shape), result.shape[-1] if result.shape else 1
    whole = int(channels % VECTOR == 0 or not stages.by_channel)
    run = run_of_item()
    defines: dict[str, int | str] = {"WHOLE_VECTORS": whole, "RUN": run}
    source = Source.of("elementwise", defines, type_lines(element) + stages.lines)
    arguments: list[Argument] = [x, y, count, max(1, channels), *stages.arguments]
    return launch(
        call, source, "stages", arguments, (-(-count // run),), (GROUP,), in_place=((0, 0),)
    )


def _broadcast(call: KernelCall) -> Step | None:
    """Return the step of a form; None if there is none."""
    found = _form(call.head)
    if found is None:
        return None
    result = call.outputs[0].spec
    operands = [
        Operand(read(call, i), element_of(spec), spec.shape)
        for i, spec in enumerate(call.head.ins)
        if spec is not None
    ]
    for numbers in found.tables:
        value = table(call, numbers, Element.FLOAT)
        operands.append(Operand(value, Element.FLOAT, numbers.shape))
    stages = stages_of(call, element_of(result))
    y = Operand(write(call), element_of(result), result.shape)
    return broadcast(call, found.form, operands, y, stages)


def _form(view: NodeView) -> TypeForm | None:
    """Return what a node computes of elements of its inputs; None if that is not known."""
    if has_line(view):
        names = [f"a{i}" for i in range(sum(spec is not None for spec in view.ins))]
        return TypeForm(Form(line_of(view, names), Element.FLOAT, converts=True))
    if (changed := type_form(view)) is not None:
        return changed
    ins = tuple(spec for spec in view.ins if spec is not None)
    elements = {element_of(spec) for spec in (*ins, *view.outs)}
    form = integer_form(view, *elements) if len(elements) == 1 else None
    form = form or logic_form(view, ins)
    return None if form is None else TypeForm(form)


_OPS = (
    *(op for op in (*UNARY, *BINARY) if op in PACKAGE.schemas),
    *COMPARISONS,
    *LOGIC,
    *TESTS,
    SELECT,
    "Batchnorm",
    "Cast",
    "Convert",
    "Dequantize",
    "ElementWiseBinary",
    "ElementWiseMod",
    "ElementWiseNeuron",
    "ElementWiseUnary",
    "Quantize",
)
for _op_type in dict.fromkeys(_OPS):
    KERNELS.register(STANDARD, _op_type, can_fuse=can_fuse, branch=Branch.GATE)(elementwise)
