"""Nodes fused into a primitive as its post-ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dovetail.ir import DType, Shape, TensorKind
from dovetail.ops import NodeView
from dovetail.runtime.plan import KernelCall, Tail
from dovetail_onednn._api import Algorithm, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import RELU, Binary, Eltwise, PostOp, Slopes
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_opset import STANDARD

PRELU = "Prelu"
LONGEST = 8  # nodes in a group; the library takes at most 32 post-ops
BINARY = {
    "ElementWiseAdd": BinaryAlgorithm.ADD,
    "ElementWiseMultiply": BinaryAlgorithm.MULTIPLY,
    "ElementWiseSubtract": BinaryAlgorithm.SUBTRACT,
    "ElementWiseDivide": BinaryAlgorithm.DIVIDE,
}
COMMUTATIVE = (BinaryAlgorithm.ADD, BinaryAlgorithm.MULTIPLY)
SWISH = Eltwise(Algorithm.SWISH, 1.0)
Functions = tuple[Eltwise, ...]
# Returns the descriptor of a dense tensor of the result's rank, axes in the library's order.
Describe = Callable[[Shape], MemoryDesc]


class Chain(msgspec.Struct, frozen=True):
    """The post-ops of a call.

    Attributes:
        ops: In order.
        operands: For each post-op that reads a tensor, its index in `ops` and the call's input.
    """

    ops: tuple[PostOp, ...]
    operands: tuple[tuple[int, int], ...]

    def with_slopes(self, describe: Describe) -> Chain:
        """Return the chain with slopes of 0 in place of Relu, as `RELU` and faster in convolutions.

        Args:
            describe: As for `chain_of`.
        """
        zero = Slopes(describe(()), is_zero=True)
        return Chain(tuple(zero if op == RELU else op for op in self.ops), self.operands)


def can_fuse(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether the primitive of a group can run a node too; see `Kernel.can_fuse`."""
    if len(group) >= LONGEST or node.package != STANDARD:
        return False
    if len(group) > 1 and group[-2].node.outputs[0] in node.node.inputs:  # joins a gate
        return node.op_type == "ElementWiseMultiply" and _gate_of(group[-1]) is not None
    if any(s is None or s.dtype is not DType.FLOAT_32 for s in (*node.ins, *node.outs)):
        return False
    algorithm, before = BINARY.get(node.op_type), group[-1]
    if algorithm is None:
        if node.op_type == PRELU and node.node.inputs[0] is not before.node.outputs[0]:
            return False  # the group computes the slopes
        return bool(functions_of(node)) or _has_slopes(group[0], node)
    result = before.outs[0]
    if result is None or node.outs[0] is None or result.shape != node.outs[0].shape:
        return False  # the other operand enlarges the result
    is_first = node.node.inputs[0] is before.node.outputs[0]
    if not is_first and algorithm not in COMMUTATIVE:
        return False
    other = node.ins[1 if is_first else 0]
    return other is not None and _is_common(other.shape, result.shape)


def _is_common(shape: Shape, result: Shape) -> bool:
    """Return whether all fast code reads an operand: a full one, one by channel, or a number."""
    others = shape[:-1] if shape else ()
    return shape == result or (all(n == 1 for n in others) and len(shape) <= len(result))


def _has_slopes(head: NodeView, node: NodeView) -> bool:
    """Return whether a node is Prelu with a slope for each channel after a convolution."""
    if node.op_type != PRELU or "Conv" not in head.op_type:
        return False
    result, slopes = node.outs[0].shape, node.ins[1]
    return slopes is not None and math.prod(slopes.shape) == slopes.shape[-1] == result[-1]


def functions_of(view: NodeView) -> Functions:
    """Return a node as functions of each element, in order; () if the library has none."""
    name = _function_name(view)
    if name == PRELU:
        return _leak(view)
    make = _FUNCTIONS.get(name)
    return () if make is None else make(view.op)


def _function_name(view: NodeView) -> str:
    if view.op_type != "ElementWiseNeuron":
        return view.op_type
    op: Any = view.op  # its class is the op set's, which this package does not import
    return str(op.operation.name)


def _gate_of(view: NodeView) -> Eltwise | None:
    """Return the product of a value and a node's function of it, if the library supports it."""
    name = _function_name(view)
    if name in ("Sigmoid", "SIGMOID"):
        return SWISH
    if name != "HARD_SIGMOID":
        return None
    return Eltwise(Algorithm.HARDSWISH, *_line(view.op))


def _leak(view: NodeView) -> Functions:
    """Return Prelu with one constant slope for all elements."""
    slopes = view.node.inputs[1]
    if slopes is None or slopes.kind is not TensorKind.STATIC or math.prod(slopes.shape) != 1:
        return ()
    slope = float(slopes.values().reshape(-1)[0])
    return (Eltwise(Algorithm.RELU, slope) if slope else RELU,)


def _clipped(low: float, high: float) -> Functions:
    """Return clip(x, low, high); () for bounds with which the library loses NaN."""
    if low != 0 or high < 0:
        return ()
    return (*_at_most(high), RELU)


def _at_most(high: float) -> Functions:
    """Return min(x, high), which maps NaN to -inf; `RELU` then maps -inf to NaN."""
    return () if high == math.inf else (Eltwise(Algorithm.CLIP, -math.inf, high),)


def _clip(op: Any) -> Functions:
    return _clipped(float(op.min_value), float(op.max_value))


def _elu(op: Any) -> Functions:
    return (Eltwise(Algorithm.ELU, 1.0 if op.alpha is None else op.alpha),)


def _line(op: Any) -> tuple[float, float]:
    return 0.2 if op.alpha is None else op.alpha, 0.5 if op.beta is None else op.beta


def _hard_sigmoid(op: Any) -> Functions:
    return (Eltwise(Algorithm.LINEAR, *_line(op)), *_clipped(0.0, 1.0))


def _plain(
    algorithm: Algorithm, alpha: float = 0.0, beta: float = 0.0
) -> Callable[[Any], Functions]:
    return lambda _: (Eltwise(algorithm, alpha, beta),)


# By op, and by function of ElementWiseNeuron.
_FUNCTIONS: dict[str, Callable[[Any], Functions]] = {
    "Relu": lambda _: (RELU,),
    "RELU": lambda _: (RELU,),
    "Relu6": lambda _: _clipped(0.0, 6.0),
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
    "ElementWiseRound": _plain(Algorithm.ROUND),
    "ElementWiseSquareRoot": _plain(Algorithm.SQRT),
}


def chain_of(call: KernelCall, describe: Describe, kind: DataType = DataType.F32) -> Chain:
    """Return the fused nodes of a call as post-ops.

    Args:
        call: Its nodes were fused by `can_fuse`.
        describe: Describes an operand, whose shape broadcasts to the result's.
        kind: Type of operands as large as the result; others are float32.
    """

    def typed(shape: Shape) -> MemoryDesc:
        is_full = math.prod(shape) == math.prod(call.outputs[0].shape)
        return describe(shape).of_type(kind) if is_full else describe(shape)

    ops: list[PostOp] = []
    operands: list[tuple[int, int]] = []
    start = 0  # of the post-ops of the node before
    for node, before in zip(call.fused, (None, *call.fused), strict=False):
        if node.joins and before is not None:
            ops[start:] = [_gated(before.view)]
            continue
        start = len(ops)
        if functions := functions_of(node.view):
            ops += functions
            continue
        (other,) = (index for index in node.operands if index is not None)
        operands.append((start, other))
        ops.append(_post_op(node, typed(call.spec(other).shape)))
    return Chain(tuple(ops), tuple(operands))


def _gated(gate: NodeView) -> Eltwise:
    function = _gate_of(gate)
    if function is None:
        raise AssertionError(f"{gate.node.where} was fused as a gate")
    return function


def _post_op(node: Tail, other: MemoryDesc) -> PostOp:
    op_type = node.view.op_type
    if op_type in BINARY:
        return Binary(BINARY[op_type], other)
    if op_type != PRELU:
        raise AssertionError(f"{op_type} was fused, but has no post-op")
    return Slopes(other)
