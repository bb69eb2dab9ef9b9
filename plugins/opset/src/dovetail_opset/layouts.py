"""Rules for the params of ops whose tensors change layout.

A rule is called with a bound op and `perm`, where `old = new.transpose(perm)`: axis k of the old
layout is axis perm[k] of the new one. It returns the changed params by name and the perm that leads
from the new outputs back to the old ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dovetail.ir import Node, Shape
from dovetail.ops import Op
from dovetail.ops.op import param_fields
from dovetail_opset._package import schema_of
from dovetail_opset._shapes import ints
from dovetail_opset.ops.arrangement import Pack, Tile, UnPack
from dovetail_opset.ops.blocks import ChannelShuffle
from dovetail_opset.ops.gather import GatherElements
from dovetail_opset.ops.layout import Concat, Split
from dovetail_opset.ops.normalization import L2Norm, LayerNorm, RmsNorm
from dovetail_opset.ops.ranking import Argmax, Argmin
from dovetail_opset.ops.reduction import CumulativeSum, Moments, ReduceMax, ReduceMean, ReduceSum
from dovetail_opset.ops.scatter import ScatterElements
from dovetail_opset.ops.slicing import Pad, StridedSlice
from dovetail_opset.ops.softmax import LogSoftmax, Softmax
from dovetail_opset.perms import inverse, is_identity, is_to_last

Moved = tuple[dict[str, Any], Shape]
Rule = Callable[[Any, Shape], Moved | None]
OpT = TypeVar("OpT", bound=Op)


def _unchanged(op: Op, perm: Shape) -> Moved:
    return {}, perm


_Along = (
    ChannelShuffle
    | Concat
    | CumulativeSum
    | GatherElements
    | LogSoftmax
    | ScatterElements
    | Softmax
    | Split
)


def _axis(op: _Along, perm: Shape) -> Moved:
    return {"axis": perm[op.axis]}, perm


def _norm_axes(op: L2Norm, perm: Shape) -> Moved:
    return {"axes": [perm[a] for a in op.over()]}, perm


def _axes(op: LayerNorm | RmsNorm, perm: Shape) -> Moved:
    # gamma and beta follow the order of axes, which stays
    return {"axes": [perm[a] for a in ints(op.axes)]}, perm


def _reduction(op: Moments | ReduceMax | ReduceMean | ReduceSum, perm: Shape) -> Moved:
    axes = ints(op.axes)
    moved = {"axes": sorted(perm[a] for a in axes)}
    if op.keep_dims:
        return moved, perm
    return moved, _left(perm, axes)


def _search(op: Argmax | Argmin, perm: Shape) -> Moved:
    moved = {"axis": perm[op.axis]}
    return moved, perm if op.keep_dims else _left(perm, (op.axis,))


def _left(perm: Shape, dropped: Shape) -> Shape:
    """Return the perm of the axes that are not dropped."""
    left = [p for k, p in enumerate(perm) if k not in dropped]
    return tuple(sorted(left).index(p) for p in left)


def _unpacked(op: UnPack, perm: Shape) -> Moved | None:
    back = _left(perm, (op.axis,))
    return ({"axis": perm[op.axis]}, back) if _is_of_use(back) else None


def _packed(op: Pack, perm: Shape) -> Moved | None:
    # the new dimension is one of space: all of these come one position earlier in the new layout
    if op.axis < 2:
        return None
    position = op.axis - 1
    shifted = [p + (p >= position) for p in perm]
    back = (*shifted[: op.axis], position, *shifted[op.axis :])
    return ({"axis": position}, back) if _is_of_use(back) else None


def _is_of_use(back: Shape) -> bool:
    """Return whether a transpose of several tensors, or of a larger one, cancels or can move on."""
    return is_identity(back) or is_to_last(inverse(back))


def _pad(op: Pad, perm: Shape) -> Moved:
    return {"pad_amount": _rows(op.pad_amount, perm)}, perm


def _tile(op: Tile, perm: Shape) -> Moved:
    return {"multiples": _rows(op.multiples, perm)}, perm


def _slice(op: StridedSlice, perm: Shape) -> Moved | None:
    if op.new_axes_mask:
        return None
    moved: dict[str, Any] = {"ranges": _rows(op.ranges, perm)}
    for name in ("begin_mask", "end_mask", "shrink_axes"):
        mask = getattr(op, name)
        moved[name] = sum(1 << p for k, p in enumerate(perm) if mask >> k & 1)
    dropped = tuple(k for k in range(len(perm)) if op.shrink_axes >> k & 1)
    return moved, _left(perm, dropped)


def _rows(values: Any, perm: Shape) -> Any:
    moved = np.empty_like(values)
    moved[list(perm)] = values
    return moved


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("ChannelShuffle", "Concat", "CumulativeSum", "GatherElements"), _axis),
    **dict.fromkeys(("LogSoftmax", "ScatterElements", "Softmax", "Split"), _axis),
    **{f"Reduce{name}": _reduction for name in ("Max", "Mean", "Min", "Prod", "Sum", "SumSquare")},
    "Moments": _reduction,
    "Argmax": _search,
    "Argmin": _search,
    "L2Norm": _norm_axes,
    "LayerNorm": _axes,
    "RmsNorm": _axes,
    "Pack": _packed,
    "UnPack": _unpacked,
    "Pad": _pad,
    "StridedSlice": _slice,
    "Tile": _tile,
}

# Ops whose further inputs do not have the layout of the first one.
ONLY_FIRST_MOVES = ("LayerNorm", "RmsNorm")


def rule_of(node: Node) -> Rule | None:
    """Return the rule of a node's op; None if the op depends on a layout or is not ours."""
    schema = schema_of(node)
    if schema is None:
        return None
    return _unchanged if schema.op.is_elementwise else _RULES.get(node.op_type)


def moved_op(node: Node, op: OpT, perm: Shape) -> tuple[OpT, Shape] | None:
    """Return the op for inputs in another layout, and the perm from its outputs to the old ones.

    Args:
        node: A node.
        op: Its op with its params.
        perm: The perm from the new inputs to the old ones.
    """
    rule = rule_of(node)
    moved = None if rule is None else rule(op, perm)
    if moved is None:
        return None
    params = {name: getattr(op, name) for name in param_fields(type(op))}
    return type(op)(**params | moved[0]), moved[1]
