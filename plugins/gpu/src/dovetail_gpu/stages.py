"""Stages: elementwise nodes as lines of OpenCL C, alone or after the kernel they are fused with.

A stage changes the variable `v`, a float or a vector of eight. The macro STAGES of a program is all
of them: `STAGES(V, LOAD, v, at, channel)`, where V is the type of `v`, LOAD reads it at a pointer,
`at` is the index of its first element in the result and `channel` the one on the last axis. Other
operands are the parameters STAGE_PARAMETERS of the function, which begins with STAGE_OPERANDS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.ir import Shape, Spec
from dovetail.ops import NodeView
from dovetail.runtime.plan import KernelCall, Tail, Value
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import PACKAGE
from dovetail_gpu.layouts import is_encoded, read

LONGEST = 8  # nodes in a group
_RELU = "v = select(v, (V)(0.0f), v < (V)(0.0f));"
_CLIP = "v = select(v, (V)({low}), v < (V)({low})); v = select(v, (V)({high}), v > (V)({high}));"
_GELU = "v = 0.5f * v * (1.0f + erf(v * 0.70710678f));"
_ELU = "v = select(v, {alpha} * expm1(v), v < (V)(0.0f));"
_LINE = "v = clamp({alpha} * v + {beta}, (V)(0.0f), (V)(1.0f));"

# Functions of ops, and of the operations of ElementWiseNeuron and ElementWiseUnary, whose numbers
# are the op's params.
UNARY: dict[str, str] = {
    "Relu": _RELU,
    "RELU": _RELU,
    "Relu1": _CLIP.format(low="-1.0f", high="1.0f"),
    "Relu6": _CLIP.format(low="0.0f", high="6.0f"),
    "ReluMinMax": _CLIP,
    "RELU_MIN_MAX": _CLIP,
    "Sigmoid": "v = 1.0f / (1.0f + exp(-v));",
    "SIGMOID": "v = 1.0f / (1.0f + exp(-v));",
    "Tanh": "v = tanh(v);",
    "TANH": "v = tanh(v);",
    "Gelu": _GELU,
    "GELU": _GELU,
    "HardSwish": "v = v * clamp(v + 3.0f, (V)(0.0f), (V)(6.0f)) / 6.0f;",
    "HARD_SWISH": "v = v * clamp(v + 3.0f, (V)(0.0f), (V)(6.0f)) / 6.0f;",
    "HARD_SIGMOID": _LINE,
    "Elu": _ELU,
    "ELU": _ELU,
}
BINARY: dict[str, str] = {
    "ElementWiseAdd": "v = {a} + {b};",
    "ElementWiseSubtract": "v = {a} - {b};",
    "ElementWiseMultiply": "v = {a} * {b};",
    "ElementWiseDivide": "v = {a} / {b};",
}


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a stage besides `v`.

    Attributes:
        value: The value.
        index: Expression of the index of its first element, of `at` and `channel`.
        is_one: Whether it is one number for all elements.
    """

    value: Value
    index: str
    is_one: bool


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
            name = self._operand(index)
            self._lines.append(f"v = v + {name};")

    def add_head(self, first: int) -> None:
        """Add the head, of which `v` is the input of this index."""
        head = self._call.head
        operands = tuple(None if i == first else i for i in range(len(head.node.inputs)))
        self._lines.append(self._line(Tail(head, operands)))

    def add_fused(self) -> None:
        """Add the fused nodes of the call."""
        for tail in self._call.fused:
            self._lines.append(self._line(tail))

    def finished(self) -> Stages:
        """Return the stages."""
        body = " ".join(self._lines)
        numbers = range(len(self._operands))
        parameters = "".join(f", TENSOR_IN(S, o{i})" for i in numbers)
        loads = " ".join(f"TENSOR_READ(S, o{i});" for i in numbers)
        lines = (
            f"#define STAGE_PARAMETERS {parameters}\n"
            f"#define STAGE_OPERANDS {loads}\n"
            f"#define STAGES(V, LOAD_V, v, at, channel) {{ {body} }}\n"
        )
        by_channel = any(operand.index == "channel" for operand in self._operands)
        return Stages(lines, tuple(operand.value for operand in self._operands), by_channel)

    def _line(self, tail: Tail) -> str:
        text = function_of(tail.view)
        if text is not None:
            return text
        (position,) = (i for i, operand in enumerate(tail.operands) if operand is not None)
        index = tail.operands[position]
        if index is None:
            raise AssertionError("a stage without an operand")
        other = self._operand(index)
        first, second = (other, "v") if position == 0 else ("v", other)
        return BINARY[operation_of(tail.view)].format(a=first, b=second)

    def _operand(self, index: int) -> str:
        """Declare an input as read, and return the expression of its elements."""
        shape = self._call.spec(index).shape
        number = len(self._operands)
        is_one = math.prod(shape) == 1
        at = "0" if is_one else "at" if is_full(shape, self._result.shape) else "channel"
        self._operands.append(Operand(read(self._call, index, self._element), at, is_one))
        load = "LOAD" if is_one else "LOAD_V"
        return f"(V)({load}(o{number} + ({at})))" if is_one else f"{load}(o{number} + ({at}))"


def first_operand(view: NodeView) -> int | None:
    """Return the input of a node that `v` is; None if none has the shape of the result."""
    specs, result = view.ins, view.outs[0].shape
    if any(not _is_real(spec) for spec in specs):
        return None
    if function_of(view) is not None:
        return 0
    if len(specs) != 2 or operation_of(view) not in BINARY:
        return None
    shapes = [() if spec is None else spec.shape for spec in specs]
    for i in (0, 1):
        if shapes[i] == result and fits(shapes[1 - i], result):
            return i
    return None


def operation_of(view: NodeView) -> str:
    """Return the name of what an elementwise node computes: its op, or its operation."""
    operation: Any = getattr(view.op, "operation", None)
    return view.op_type if operation is None else str(operation.name)


def function_of(view: NodeView) -> str | None:
    """Return a node of one input as a line; None for others."""
    text = UNARY.get(operation_of(view))
    return None if text is None else text.format(**_numbers(view.op))


def _numbers(op: Any) -> dict[str, str]:
    alpha, beta = getattr(op, "alpha", None), getattr(op, "beta", None)
    operation: Any = getattr(op, "operation", None)
    is_line = operation is not None and operation.name == "HARD_SIGMOID"
    return {
        "low": number(getattr(op, "min_value", 0.0)),
        "high": number(getattr(op, "max_value", 0.0)),
        "alpha": number((0.2 if is_line else 1.0) if alpha is None else alpha),
        "beta": number(0.5 if beta is None else beta),
    }


def number(value: float) -> str:
    """Return a number in OpenCL C, exactly."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"({float(value).hex()}f)"


def is_full(shape: Shape, result: Shape) -> bool:
    """Return whether an operand has an element for each of the result."""
    return math.prod(shape) == math.prod(result)


def can_fuse(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a node can be a stage after a group; see `Kernel.can_fuse`."""
    before = group[-1]
    if len(group) >= LONGEST or node.package != PACKAGE or before.package != PACKAGE:
        return False
    if not all(_is_real(s) for s in (*node.ins, *node.outs)) or len(node.outs) != 1:
        return False
    if node.node.outputs[0].shape != before.node.outputs[0].shape:
        return False
    if function_of(node) is not None:
        return True
    if operation_of(node) not in BINARY:
        return False
    others = [
        s
        for t, s in zip(node.node.inputs, node.ins, strict=True)
        if t is not before.node.outputs[0]
    ]
    return len(others) == 1 and others[0] is not None and fits(others[0].shape, node.outs[0].shape)


def fits(shape: Shape, result: Shape) -> bool:
    """Return whether stages read an operand: a full one, one by channel, or a number."""
    if math.prod(shape) == 1 or shape == result:
        return len(shape) <= len(result)
    return len(shape) <= len(result) and math.prod(shape) == shape[-1] == result[-1]


def _is_real(spec: Spec | None) -> bool:
    return spec is not None and (spec.dtype.is_float or is_encoded(spec))
