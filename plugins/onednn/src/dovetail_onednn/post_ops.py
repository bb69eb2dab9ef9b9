"""Nodes that a primitive runs in passing: which ones, and as which post-ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.ir import DType, Shape, TensorKind
from dovetail.runtime.contract import NodeView
from dovetail.runtime.plan import KernelCall, Tail
from dovetail_onednn._api import Algorithm, BinaryAlgorithm, DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.primitives import Binary, Eltwise, PostOp, Slopes

PRELU = "Prelu"
LONGEST = 8  # nodes in a group; the library takes at most 32 post-ops
BINARY = {
    "ElementWiseAdd": BinaryAlgorithm.ADD,
    "ElementWiseMultiply": BinaryAlgorithm.MULTIPLY,
    "ElementWiseSubtract": BinaryAlgorithm.SUBTRACT,
    "ElementWiseDivide": BinaryAlgorithm.DIVIDE,
    "ElementWiseMaximum": BinaryAlgorithm.MAXIMUM,
    "ElementWiseMinimum": BinaryAlgorithm.MINIMUM,
}
COMMUTATIVE = (
    BinaryAlgorithm.ADD,
    BinaryAlgorithm.MULTIPLY,
    BinaryAlgorithm.MAXIMUM,
    BinaryAlgorithm.MINIMUM,
)
# What the product of a value and a function of it is.
GATED = {Algorithm.LOGISTIC: Algorithm.SWISH, Algorithm.HARDSIGMOID: Algorithm.HARDSWISH}
# Where each dense tensor of the result's rank lies, in the order of axes of the library.
Placed = Callable[[Shape], MemoryDesc]


@dataclass(frozen=True, slots=True)
class Chain:
    """The post-ops of a call.

    Attributes:
        ops: In order.
        operands: For each that reads a tensor, its position among them and the input of the call.
    """

    ops: tuple[PostOp, ...]
    operands: tuple[tuple[int, int], ...]


def can_fuse(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a group that begins with a primitive runs a node too; see `Kernel.can_fuse`."""
    if len(group) >= LONGEST or node.package != group[0].package:
        return False
    if len(group) > 1 and group[-2].node.outputs[0] in node.node.inputs:  # joins a gate
        gate = eltwise_of(group[-1])
        return (
            node.op_type == "ElementWiseMultiply" and gate is not None and gate.algorithm in GATED
        )
    if any(s is None or s.dtype is not DType.FLOAT_32 for s in (*node.ins, *node.outs)):
        return False
    algorithm, before = BINARY.get(node.op_type), group[-1]
    if algorithm is None:
        if node.op_type == PRELU and node.node.inputs[0] is not before.node.outputs[0]:
            return False  # it is the slopes
        return eltwise_of(node) is not None or _has_slopes(group[0], node)
    made = before.outs[0]
    if made is None or node.outs[0] is None or made.shape != node.outs[0].shape:
        return False  # the other operand would widen the result
    is_first = node.node.inputs[0] is before.node.outputs[0]
    if not is_first and algorithm not in COMMUTATIVE:
        return False
    other = node.ins[1 if is_first else 0]
    return other is not None and _is_common(other.shape, made.shape)


def _is_common(shape: Shape, made: Shape) -> bool:
    """Return whether an operand is of a kind that all fast code takes: full, by channel, or one number."""
    others = shape[:-1] if shape else ()
    return shape == made or (all(n == 1 for n in others) and len(shape) <= len(made))


def _has_slopes(head: NodeView, node: NodeView) -> bool:
    """Return whether a node is Prelu with a slope for each channel, behind a convolution."""
    if node.op_type != PRELU or "Conv" not in head.op_type:
        return False
    made, slopes = node.outs[0].shape, node.ins[1]
    return slopes is not None and math.prod(slopes.shape) == slopes.shape[-1] == made[-1]


def _leak(view: NodeView) -> Eltwise | None:
    """Return Prelu with one known slope for all elements."""
    slopes = view.node.inputs[1]
    if slopes is None or slopes.kind is not TensorKind.STATIC or math.prod(slopes.shape) != 1:
        return None
    return Eltwise(Algorithm.RELU, float(slopes.values().reshape(-1)[0]))


def eltwise_of(view: NodeView) -> Eltwise | None:
    """Return the function of each element that a node computes, if the library has it."""
    if view.op_type == PRELU:
        return _leak(view)
    op: Any = view.op  # its class is the op set's, which this package does not import
    name = op.operation.name if view.op_type == "ElementWiseNeuron" else view.op_type
    make = _ELTWISE.get(name)
    return None if make is None else make(op)


def _clip(op: Any) -> Eltwise:
    return Eltwise(Algorithm.CLIP, float(op.min_value), float(op.max_value))


def _elu(op: Any) -> Eltwise:
    return Eltwise(Algorithm.ELU, 1.0 if op.alpha is None else op.alpha)


def _hard_sigmoid(op: Any) -> Eltwise:
    slope = 0.2 if op.alpha is None else op.alpha
    return Eltwise(Algorithm.HARDSIGMOID, slope, 0.5 if op.beta is None else op.beta)


def _plain(algorithm: Algorithm, alpha: float = 0.0, beta: float = 0.0) -> Callable[[Any], Eltwise]:
    return lambda _: Eltwise(algorithm, alpha, beta)


# By op, and by function of ElementWiseNeuron.
_ELTWISE: dict[str, Callable[[Any], Eltwise]] = {
    "Relu": _plain(Algorithm.RELU),
    "RELU": _plain(Algorithm.RELU),
    "Relu1": _plain(Algorithm.CLIP, -1.0, 1.0),
    "Relu6": _plain(Algorithm.CLIP, 0.0, 6.0),
    "ReluMinMax": _clip,
    "RELU_MIN_MAX": _clip,
    "Sigmoid": _plain(Algorithm.LOGISTIC),
    "SIGMOID": _plain(Algorithm.LOGISTIC),
    "Tanh": _plain(Algorithm.TANH),
    "TANH": _plain(Algorithm.TANH),
    "Gelu": _plain(Algorithm.GELU_ERF),
    "GELU": _plain(Algorithm.GELU_ERF),
    "HardSwish": _plain(Algorithm.HARDSWISH, 1 / 6, 0.5),
    "HARD_SWISH": _plain(Algorithm.HARDSWISH, 1 / 6, 0.5),
    "HARD_SIGMOID": _hard_sigmoid,
    "Elu": _elu,
    "ELU": _elu,
    "ElementWiseAbs": _plain(Algorithm.ABS),
    "ElementWiseSquareRoot": _plain(Algorithm.SQRT),
}


def chain_of(call: KernelCall, placed: Placed, kind: DataType = DataType.F32) -> Chain:
    """Return a call's tail as post-ops.

    Args:
        call: Its tail was absorbed by `can_fuse`.
        placed: Describes an operand of a shape that broadcasts to the result's.
        kind: The type of operands that are as large as the result; others are float32.
    """

    def typed(shape: Shape) -> MemoryDesc:
        is_full = math.prod(shape) == math.prod(call.outputs[0].shape)
        return placed(shape).of_type(kind) if is_full else placed(shape)

    ops: list[PostOp] = []
    operands: list[tuple[int, int]] = []
    for tail in call.fused:
        if tail.joins:
            ops.append(_gated(ops.pop()))
            continue
        others = [index for index in tail.operands if index is not None]
        op = _post_op(call, tail, others, typed)
        if not isinstance(op, Eltwise):
            operands += [(len(ops), index) for index in others]
        ops.append(op)
    return Chain(tuple(ops), tuple(operands))


def _gated(gate: PostOp) -> Eltwise:
    """Return what a value times this function of it is; its factor is that of the function."""
    if not isinstance(gate, Eltwise) or gate.algorithm not in GATED:
        raise AssertionError(f"{gate} was absorbed as a gate")
    if gate.algorithm is Algorithm.LOGISTIC:
        return Eltwise(Algorithm.SWISH, 1.0)
    return Eltwise(GATED[gate.algorithm], gate.alpha, gate.beta)


def _post_op(call: KernelCall, tail: Tail, others: list[int], placed: Placed) -> PostOp:
    if (algorithm := BINARY.get(tail.view.op_type)) is not None:
        return Binary(algorithm, placed(call.spec(others[0]).shape))
    if (found := eltwise_of(tail.view)) is not None:
        return found
    if tail.view.op_type != PRELU:
        raise AssertionError(f"{tail.view.op_type} was absorbed, but has no post-op")
    return Slopes(placed(call.spec(others[0]).shape))
