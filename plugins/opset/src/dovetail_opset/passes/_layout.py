"""How the params of an op follow when its tensors change layout.

A rule is given a bound op and `perm`, where `old = new.transpose(perm)`: axis k of the old layout
is axis perm[k] of the new one. It gives the changed params by name and the perm that leads from the
new outputs back to the old ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Node, Shape
from dovetail.ops import Op
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import ints
from dovetail_opset.ops.arrangement import Tile
from dovetail_opset.ops.blocks import ChannelShuffle
from dovetail_opset.ops.layout import Concat, Split
from dovetail_opset.ops.normalization import L2Norm, LayerNorm, RmsNorm
from dovetail_opset.ops.ranking import Argmax, Argmin
from dovetail_opset.ops.reduction import CumulativeSum, ReduceMax, ReduceMean, ReduceSum
from dovetail_opset.ops.slicing import Pad, StridedSlice
from dovetail_opset.ops.softmax import LogSoftmax, Softmax

Moved = tuple[dict[str, Any], Shape]
Rule = Callable[[Any, Shape], Moved | None]


def _unchanged(op: Op, perm: Shape) -> Moved:
    return {}, perm


def _axis(
    op: ChannelShuffle | Concat | CumulativeSum | LogSoftmax | Softmax | Split, perm: Shape
) -> Moved:
    return {"axis": perm[op.axis]}, perm


def _norm_axes(op: L2Norm, perm: Shape) -> Moved:
    return {"axes": [perm[a] for a in op.over()]}, perm


def _axes(op: LayerNorm | RmsNorm, perm: Shape) -> Moved:
    # gamma and beta follow the order of axes, which stays
    return {"axes": [perm[a] for a in ints(op.axes)]}, perm


def _reduction(op: ReduceMax | ReduceMean | ReduceSum, perm: Shape) -> Moved:
    axes = ints(op.axes)
    moved = {"axes": sorted(perm[a] for a in axes)}
    if op.keep_dims:
        return moved, perm
    return moved, _left(perm, axes)


def _place(op: Argmax | Argmin, perm: Shape) -> Moved:
    moved = {"axis": perm[op.axis]}
    return moved, perm if op.keep_dims else _left(perm, (op.axis,))


def _left(perm: Shape, dropped: Shape) -> Shape:
    """Gives the perm of the axes that are not dropped."""
    left = [p for k, p in enumerate(perm) if k not in dropped]
    return tuple(sorted(left).index(p) for p in left)


def _pad(op: Pad, perm: Shape) -> Moved:
    return {"pad_amount": _rows(op.pad_amount, perm)}, perm


def _tile(op: Tile, perm: Shape) -> Moved:
    return {"multiples": _rows(op.multiples, perm)}, perm


def _slice(op: StridedSlice, perm: Shape) -> Moved | None:
    if op.shrink_axes or op.new_axes_mask:
        return None
    moved: dict[str, Any] = {"ranges": _rows(op.ranges, perm)}
    for name in ("begin_mask", "end_mask"):
        mask = getattr(op, name)
        moved[name] = sum(1 << p for k, p in enumerate(perm) if mask >> k & 1)
    return moved, perm


def _rows(values: Any, perm: Shape) -> Any:
    moved = np.empty_like(values)
    moved[list(perm)] = values
    return moved


_UNARY = ("Abs", "Ceil", "Cos", "Exp", "Floor", "Log", "Neg", "Round", "Rsqrt", "Sign", "Sin")
_BINARY = ("Add", "Subtract", "Multiply", "Divide", "Power", "Maximum", "Minimum")
_ACTIVATIONS = (
    "Relu",
    "Relu1",
    "Relu6",
    "ReluMinMax",
    "Sigmoid",
    "Tanh",
    "Gelu",
    "HardSwish",
    "Elu",
)

_RULES: dict[str, Rule] = {
    **{f"ElementWise{name}": _unchanged for name in (*_UNARY, *_BINARY)},
    **dict.fromkeys((*_ACTIVATIONS, "Cast", "Convert", "Quantize", "Dequantize"), _unchanged),
    "ElementWiseNeuron": _unchanged,
    "ElementWiseSquareRoot": _unchanged,
    "ElementWiseSquaredDifference": _unchanged,
    "ElementWiseSoftplus": _unchanged,
    "Prelu": _unchanged,
    "Softmax": _axis,
    "LogSoftmax": _axis,
    "CumulativeSum": _axis,
    "Argmax": _place,
    "Argmin": _place,
    "L2Norm": _norm_axes,
    "RmsNorm": _axes,
    "ChannelShuffle": _axis,
    "Concat": _axis,
    "Split": _axis,
    "LayerNorm": _axes,
    "ReduceMax": _reduction,
    "ReduceMean": _reduction,
    "ReduceMin": _reduction,
    "ReduceProd": _reduction,
    "ReduceSum": _reduction,
    "ReduceSumSquare": _reduction,
    "Pad": _pad,
    "StridedSlice": _slice,
    "Tile": _tile,
}

# Ops whose further inputs do not have the layout of the first one.
ONLY_FIRST_MOVES = ("LayerNorm", "RmsNorm")


def rule_of(node: Node) -> Rule | None:
    """Gives the rule of a node's op, None where the op is tied to a layout or not ours."""
    return _RULES.get(node.op_type) if node.package == PACKAGE.name else None
