"""Nodes that a convolution runs in passing: which ones, and as which post-ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.ir import DType
from dovetail.runtime.contract import NodeView
from dovetail.runtime.plan import KernelCall, Tail
from dovetail_onednn._api import Algorithm
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.primitives import Add, Eltwise, PostOp

LONGEST = 8  # nodes in a group; the library takes at most 32 post-ops


@dataclass(frozen=True, slots=True)
class Chain:
    """The post-ops of a call.

    Attributes:
        ops: In order.
        operands: For each `Add`, its position among them and the input of the call that it reads.
    """

    ops: tuple[PostOp, ...]
    operands: tuple[tuple[int, int], ...]


def absorbs(group: Sequence[NodeView], node: NodeView) -> bool:
    """Whether a group that begins with a convolution runs a node too; see `Kernel.absorbs`."""
    if len(group) >= LONGEST or node.package != group[0].package:
        return False
    if any(s is None or s.dtype is not DType.FLOAT_32 for s in (*node.ins, *node.outs)):
        return False
    if node.op_type == "ElementWiseAdd":
        # broadcasting would change the result's shape, or need another kind of operand
        return all(s is not None and s.shape == node.outs[0].shape for s in node.ins)
    return node.op_type in ("Relu", "ReluMinMax")


def chain_of(call: KernelCall, dims: Sequence[int]) -> Chain:
    """Gives a call's tail as post-ops.

    Args:
        call: Its tail was absorbed by `absorbs`.
        dims: Logical extents of the result.
    """
    ops: list[PostOp] = []
    operands: list[tuple[int, int]] = []
    for tail in call.tail:
        operands += [(len(ops), index) for index in tail.operands if index is not None]
        ops.append(_post_op(tail, dims))
    return Chain(tuple(ops), tuple(operands))


def _post_op(tail: Tail, dims: Sequence[int]) -> PostOp:
    op: Any = tail.view.op  # its class is the op set's, which this package does not import
    match tail.view.op_type:
        case "Relu":
            return Eltwise(Algorithm.RELU)
        case "ReluMinMax":
            return Eltwise(Algorithm.CLIP, float(op.min_value), float(op.max_value))
        case "ElementWiseAdd":
            return Add(MemoryDesc.any(dims))
        case other:
            raise AssertionError(f"{other} was absorbed, but has no post-op")
