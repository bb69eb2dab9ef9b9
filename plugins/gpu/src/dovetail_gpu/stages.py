"""Stages: elementwise nodes as lines of OpenCL C, alone or after the kernel they are fused with.

A stage changes the variable `v`, a float or a vector of eight. The macro STAGES of a program is all
of them: `STAGES(V, LOAD, v, at, channel)`, where V is the type of `v`, LOAD reads it at a pointer,
`at` is the index of its first element in the result and `channel` the one on the last axis. Other
operands are the parameters STAGE_PARAMETERS of the function, which begins with STAGE_OPERANDS.

A stage may be a gate, which the chain is multiplied with, as in x * sigmoid(x): a kernel that is
registered with `Branch.GATE` runs such nodes, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.ir import Shape, Tensor
from dovetail.ops import NodeView
from dovetail.runtime.plan import KernelCall, Tail, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import Element
from dovetail_gpu.functions import (
    BINARY,
    ON_GRID,
    SCALED,
    SCALED_AND_SHIFTED,
    UNARY,
    division_lines,
    name_of,
    numbers_of,
)
from dovetail_gpu.grids import Grid, target_grid
from dovetail_gpu.layouts import all_real, is_encoded, read, table
from dovetail_opset import STANDARD

LONGEST = 8  # nodes in a group
COPIES = ("Convert", "Dequantize")  # on a device, among real numbers


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a stage besides `v`.

    Attributes:
        value: The value.
        element: Its type.
        index: Expression of the index of its first element, of `at` and `channel`.
    """

    value: Value
    element: Element
    index: str


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a call.

    Attributes:
        lines: Definitions for the head of a program.
        arguments: The operands, last arguments of the function.
        by_channel: Whether an operand has one number for each channel.
    """

    lines: str
    arguments: tuple[Value, ...]
    by_channel: bool


class StageWriter:
    """Collects the stages of a call, for results of a number of channels on the last axis.

    Args:
        call: The call; operands of its fused nodes are declared as read here.
        element: Type of real numbers in the step.
    """

    def __init__(self, call: KernelCall, element: Element) -> None:
        self._call, self._element = call, element
        self._result = call.outputs[0].spec
        self._lines: list[str] = []
        self._operands: list[Operand] = []

    def add_bias(self, index: int) -> None:
        """Add an input with a number for each channel, if the call has it."""
        if self._call.has(index):
            self._lines.append(f"v = v + {self._input(index)};")

    def add_head(self, first: int) -> None:
        """Add the head, of which `v` is the input of this index."""
        head = self._call.head
        inputs = range(len(head.node.inputs))
        operands = tuple(None if i == first or not self._call.has(i) else i for i in inputs)
        self._lines.append(self._line(Tail(head, operands), head.node.inputs[first]))

    def add_fused(self) -> None:
        """Add the fused nodes of the call."""
        tails = self._call.fused
        before = self._call.head.node.outputs[0]
        for i, tail in enumerate(tails):
            is_gate = i + 1 < len(tails) and tails[i + 1].joins
            if is_gate:
                self._lines.append(f"V before{i}_ = v;")
            if tail.joins:
                self._lines.append(self._join(tail, f"before{i - 1}_", before))
            else:
                self._lines.append(self._line(tail, before))
            before = tail.view.node.outputs[0]

    def finished(self) -> Stages:
        """Return the stages."""
        body = " ".join(self._lines)
        kinds = [operand.element.text for operand in self._operands]
        parameters = "".join(f", TENSOR_IN({kind}, o{i})" for i, kind in enumerate(kinds))
        loads = " ".join(f"TENSOR_READ({kind}, o{i});" for i, kind in enumerate(kinds))
        lines = (
            f"{quotient_lines()}"
            f"#define STAGE_PARAMETERS {parameters}\n"
            f"#define STAGE_OPERANDS {loads}\n"
            f"#define STAGES(V, LOAD_V, v, at, channel) {{ {body} }}\n"
        )
        by_channel = any(operand.index == "channel" for operand in self._operands)
        return Stages(lines, tuple(operand.value for operand in self._operands), by_channel)

    def _line(self, tail: Tail, before: Tensor | None) -> str:
        """Return the line of a node that reads `v`, the tensor `before`, and further operands."""
        view = tail.view
        grid = target_grid(view)
        if grid is not None:
            return on_grid(grid, "v", *self._numbers(grid.scale.item(), grid.offset.item()))
        names = [
            "v" if tensor is before else self._input(index)
            for tensor, index in zip(view.node.inputs, tail.operands, strict=True)
            if tensor is before or index is not None
        ]
        return line_of(view, names)

    def _join(self, tail: Tail, before: str, gate: Tensor) -> str:
        names = ["v" if tensor is gate else before for tensor in tail.view.node.inputs]
        return line_of(tail.view, names)

    def _input(self, index: int | None) -> str:
        """Declare an input as read, and return the name of its elements."""
        if index is None:
            raise AssertionError("a stage without an operand")
        shape, number = self._call.spec(index).shape, len(self._operands)
        if math.prod(shape) == 1:
            at, load = "0", f"(V)(LOAD(o{number}))"
        else:
            at = "at" if is_full(shape, self._result.shape) else "channel"
            load = f"LOAD_V(o{number} + {at})"
        self._operands.append(Operand(read(self._call, index, self._element), self._element, at))
        self._lines.append(f"const V t{number}_ = {load};")
        return f"t{number}_"

    def _numbers(self, *numbers: float) -> list[str]:
        """Declare numbers as read, in float32 whatever the step's real numbers are."""
        number, value = len(self._operands), table(self._call, numbers, Element.FLOAT)
        self._operands.append(Operand(value, Element.FLOAT, "0"))
        return [f"(V)(o{number}[{i}])" for i in range(len(numbers))]


def stages_of(call: KernelCall, element: Element, bias: int | None = None) -> Stages:
    """Declare what fused nodes read, and return them as stages of the head's result.

    Args:
        call: The call.
        element: Type of real numbers in the step.
        bias: Index of an input that is added first, with a number for each channel.
    """
    writer = StageWriter(call, element)
    if bias is not None:
        writer.add_bias(bias)
    writer.add_fused()
    return writer.finished()


def line_of(view: NodeView, names: Sequence[str]) -> str:
    """Return the line of a node of real numbers.

    Args:
        view: The node, for which `has_line` is true.
        names: Expressions for its inputs that are present.
    """
    name = name_of(view)
    if name in UNARY:
        return UNARY[name].format(*names, **numbers_of(view))
    if name in BINARY:
        return BINARY[name].format(*names)
    if name == "Batchnorm":
        return (SCALED if len(names) == 2 else SCALED_AND_SHIFTED).format(*names)
    return f"v = {names[0]};"  # a change of type among real numbers


def on_grid(grid: Grid, *names: str) -> str:
    """Return the line that rounds to a grid; names of the number, scale and offset."""
    return ON_GRID.format(*names, low=grid.low, high=grid.high)


def has_line(view: NodeView) -> bool:
    """Return whether a node computes real numbers of real numbers by a line."""
    name = name_of(view)
    is_known = name in UNARY or name in BINARY or name == "Batchnorm"
    if not is_known and name not in COPIES:
        return False
    if name == "Convert" and is_encoded(view.outs[0]):
        return False
    return view.package == STANDARD and _all_real(view)


def first_operand(view: NodeView) -> int | None:
    """Return the input of a node that `v` can be; None if none has the shape of the result.

    The other inputs are then operands that stages read.
    """
    if not has_stage(view):
        return None
    result, name = view.outs[0].shape, name_of(view)
    for i, spec in enumerate(view.ins):
        others = [s for j, s in enumerate(view.ins) if s is not None and j != i]
        if spec is not None and spec.shape == result and all(fits(o.shape, result) for o in others):
            return i
        if name == "Batchnorm":
            break  # `v` is what it scales
    return None


def has_stage(view: NodeView) -> bool:
    """Return whether a node can be a stage, as far as its function and types are concerned."""
    if has_line(view):
        return True
    grid = target_grid(view)
    return grid is not None and grid.is_one and view.package == STANDARD and _all_real(view)


def can_fuse(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a node can be a stage after a group; see `Kernel.can_fuse`."""
    before = group[-1]
    if len(group) >= LONGEST or before.package != STANDARD or not has_stage(node):
        return False
    given, result = before.node.outputs[0], node.outs[0].shape
    if len(node.outs) != 1 or given.shape != result:
        return False
    inputs = [t for t in node.node.inputs if t is not None]
    if len(group) > 1 and group[-2].node.outputs[0] in inputs:  # joins a gate
        return len(inputs) == 2 and given in inputs
    if name_of(node) == "Batchnorm" and inputs[0] is not given:
        return False
    others = [tensor for tensor in inputs if tensor is not given]
    return len(others) == len(inputs) - 1 and all(fits(t.shape, result) for t in others)


def is_full(shape: Shape, result: Shape) -> bool:
    """Return whether an operand has an element for each of the result."""
    return math.prod(shape) == math.prod(result)


def fits(shape: Shape, result: Shape) -> bool:
    """Return whether stages read an operand: a full one, one by channel, or a number."""
    if math.prod(shape) == 1 or shape == result:
        return len(shape) <= len(result)
    return len(shape) <= len(result) and math.prod(shape) == shape[-1] == result[-1]


def quotient_lines() -> str:
    """Return the definition of exact division on the current device."""
    return division_lines(is_exact=current().engine.device.divides_exactly)


def _all_real(view: NodeView) -> bool:
    return len(view.outs) == 1 and all_real((*view.ins, *view.outs))
