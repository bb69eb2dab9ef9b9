"""Ops on bools and 32-bit integers written out, for backends that have them for other types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dovetail.ir import DType, Graph, Node, Spec, Tensor
from dovetail_opset._package import is_op
from dovetail_opset.build import add_all, static
from dovetail_opset.ops.slicing import PadScheme
from dovetail_opset.passes._gru import Step
from dovetail_opset.passes._rewrite import bound, first_input, is_constant

# Ops that do the same with bools and with integers, and which of their inputs these are.
ON_INTEGERS: Mapping[str, slice] = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherNd"), slice(1)),
    **dict.fromkeys(("Split", "StridedSlice", "Tile"), slice(1)),
    **dict.fromkeys(("Concat", "ElementWiseEqual", "ElementWiseNotEqual"), slice(None)),
    "ElementWiseSelect": slice(1, None),
}
EXTREMES = {"ElementWiseMaximum": "ElementWiseGreater", "ElementWiseMinimum": "ElementWiseLess"}


def integers_in(node: Node) -> DType | None:
    """Return the type for which backends may lack an op: BOOL_8 or INT_32; None for other nodes."""
    if is_op(node, *ON_INTEGERS) and any(t.dtype is DType.BOOL_8 for t in _operands(node)):
        return DType.BOOL_8
    of_numbers = (*EXTREMES, "ElementWiseFloorDiv", "Pad")
    if is_op(node, *of_numbers) and first_input(node).dtype is DType.INT_32:
        return DType.INT_32
    if is_op(node, "Pad") and first_input(node).dtype is DType.BOOL_8:
        return DType.BOOL_8
    return None


def _operands(node: Node) -> list[Tensor]:
    """Return the inputs of an op of `ON_INTEGERS` that may be integers."""
    return [t for t in node.inputs[ON_INTEGERS[node.op_type]] if t is not None]


def write_out_on_integers(graph: Graph, node: Node, step: Step) -> None:
    """Add the nodes of an op that does the same with integers as with bools."""
    integers = {t: _as_integers(graph, t, step) for t in _operands(node)}
    op = bound(node)
    params = {name: getattr(op, name) for name in node.params}
    given = [t if t is None else integers.get(t, t) for t in node.inputs]
    if is_op(node, "ElementWiseEqual", "ElementWiseNotEqual"):
        step(node.op_type, *given, outputs=node.outputs[0], **params)
        return
    found = add_all(
        graph,
        node.op_type,
        given,
        name=f"{node.name}.integers",
        outputs=[graph.fresh_name(f"{y.name}.integers") for y in node.outputs],
        sources=node.sources,
        **params,
    )
    for integer, y in zip(found, node.outputs, strict=True):
        step("Cast", integer, outputs=y)


def _as_integers(graph: Graph, bools: Tensor, step: Step) -> Tensor:
    # of several readers, such as the slices of a loop, the first adds the cast
    if is_constant(bools):
        return static(graph, f"{bools.name}.integers", bools.values().astype(np.int32))
    casts = (reader for reader in graph.consumers(bools) if is_op(reader, "Cast"))
    known = (cast.outputs[0] for cast in casts if cast.outputs[0].dtype is DType.INT_32)
    return next(known, None) or step("Cast", bools, spec=Spec(DType.INT_32, bools.shape))


def can_write_out_pad(node: Node) -> bool:
    """Return whether a Pad of integers or bools adds elements of a constant."""
    op: Any = bound(node)
    is_known = integers_in(node) is not None and not any(first_input(node).dynamic)
    return is_known and op.scheme is PadScheme.CONSTANT and bool(op.pad_amount.any())


def write_out_pad(graph: Graph, node: Node, step: Step) -> None:
    """Add the nodes of a Pad of integers or bools."""
    # between blocks of the constant, axis by axis
    op: Any = bound(node)
    x, y = first_input(node), node.outputs[0]
    is_bool = x.dtype is DType.BOOL_8
    found = _as_integers(graph, x, step) if is_bool else x
    pads = [(axis, pair) for axis, pair in enumerate(op.pad_amount.tolist()) if any(pair)]
    for axis, pair in pads:
        before, after = (
            [_block(graph, node, found, axis, count)] if count else [] for count in pair
        )
        is_last = axis == pads[-1][0] and not is_bool
        found = step("Concat", *before, found, *after, axis=axis, outputs=y if is_last else None)
    if is_bool:
        step("Cast", found, outputs=y)


def _block(graph: Graph, node: Node, x: Tensor, axis: int, count: int) -> Tensor:
    """Add what a Pad of integers puts next to a tensor along an axis."""
    op: Any = bound(node)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    value = first_input(node).dtype.storage.type(op.pad_constant_value)  # a bool of 0.5 is true
    return static(graph, f"{node.name}.block", np.full(shape, value, np.int32))


def write_out_extreme(graph: Graph, node: Node, step: Step) -> None:
    """Add the nodes of a maximum or minimum of integers."""
    first, second = node.inputs
    chosen = step(EXTREMES[node.op_type], first, second)
    step("ElementWiseSelect", chosen, first, second, outputs=node.outputs[0])
