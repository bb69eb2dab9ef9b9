"""Removal of nodes without effect, and merging of two nodes in a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Graph, Node
from dovetail_opset._package import PACKAGE, is_op
from dovetail_opset.ops.slicing import Pad, StridedSlice
from dovetail_opset.passes._rewrite import (
    bound,
    bypass,
    first_input,
    keeps_stored_values,
    merge,
    sole_producer,
    to_reshape,
)
from dovetail_opset.perms import composed, is_identity, perm_of

RESHAPES = ("Reshape", "ExpandDims", "Squeeze")


@dataclass(frozen=True, slots=True)
class RemoveIdentities:
    """Remove ops without effect and merge repeated ones.

    Reshapes to the same shape, transposes that keep the order, empty pads, whole slices, casts and
    conversions to the same type; a reshape or transpose of another; Relu of Relu.
    """

    name: str = "remove-identities"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            rule = _RULES.get(node.op_type)
            if node.package == PACKAGE.name and rule is not None:
                changed |= rule(graph, node)
        return changed


def _same_shape(graph: Graph, node: Node) -> bool:
    """Bypass a node of an op that is the identity if input and output agree."""
    return bypass(graph, node)


def _reshape(graph: Graph, node: Node) -> bool:
    if bypass(graph, node):
        return True
    source = first_input(node)
    before = graph.producer(source)
    if before is None or not is_op(before, *RESHAPES):
        return False
    first = first_input(before)
    if source.encoding != first.encoding:
        return False
    if graph.only_reader(source) is None:  # other nodes, or the application, read it, too
        made = to_reshape(graph, node)
        graph.set_inputs(made, [first])
    else:
        made = to_reshape(graph, before, node)
    bypass(graph, made)
    return True


def _transpose(graph: Graph, node: Node) -> bool:
    if is_identity(perm_of(node)) and bypass(graph, node):
        return True
    before = sole_producer(graph, first_input(node))
    if before is not None and is_op(before, "Transpose") and keeps_stored_values(before):
        perm = composed(perm_of(before), perm_of(node))
        before.params["perm"] = (
            PACKAGE.schemas["Transpose"].params["perm"].param_of(perm, before.name)
        )
        merge(graph, before, node)
        if is_identity(perm):
            bypass(graph, before)
        return True
    return False


def _relu(graph: Graph, node: Node) -> bool:
    return is_op(graph.producer(first_input(node)), "Relu") and bypass(graph, node)


def _pad(graph: Graph, node: Node) -> bool:
    op = bound(node)
    return isinstance(op, Pad) and not np.any(op.pad_amount) and bypass(graph, node)


def _slice(graph: Graph, node: Node) -> bool:
    op = bound(node)
    # with no axis added or dropped and nothing reversed, the same shape means everything
    return (
        isinstance(op, StridedSlice)
        and not (op.shrink_axes or op.new_axes_mask)
        and bool(np.all(op.ranges[:, 2] > 0))
        and bypass(graph, node)
    )


def _split(graph: Graph, node: Node) -> bool:
    return len(node.outputs) == 1 and bypass(graph, node)


_RULES: dict[str, Callable[[Graph, Node], bool]] = {
    **dict.fromkeys(RESHAPES, _reshape),
    "Cast": _same_shape,
    "Convert": _same_shape,
    "Pad": _pad,
    "Relu": _relu,
    "Split": _split,
    "StridedSlice": _slice,
    "Transpose": _transpose,
}
