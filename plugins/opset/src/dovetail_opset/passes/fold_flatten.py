"""Folding of the transpose before a flattening into the weights after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Graph, Node, Shape
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.build import add, static
from dovetail_opset.passes._rewrite import (
    first_input,
    is_constant,
    is_float,
    keeps_stored_values,
    sole_producer,
)
from dovetail_opset.perms import inverse, perm_of

# Stands in the names of weights whose columns were in the order (c, h, w) and are in (h, w, c);
# scales for blocks of columns no longer fit these.
COLUMNS_LAST = ".columns_last"
# The same of any other order.
COLUMNS_MOVED = ".columns_moved"
# The same where the order does not matter, since the columns are of one axis.
_SAME_ORDER = ".last"


@dataclass(frozen=True, slots=True)
class FoldFlatten:
    """Move the transpose before a flattening Reshape and a FullyConnected into the weights.

    (n, h, w, c) transposed to (n, c, h, w), reshaped to (n, c * h * w) and multiplied with constant
    weights becomes a plain Reshape and weights with their columns in the order (h, w, c).
    """

    name: str = "fold-flatten"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in nodes_of(graph, "FullyConnected"):
            changed |= _fold(graph, node)
        return changed


def _fold(graph: Graph, layer: Node) -> bool:
    flat, weight = layer.inputs[:2]
    reshape = sole_producer(graph, flat)
    if flat is None or weight is None or reshape is None or not is_op(reshape, "Reshape"):
        return False
    transpose = sole_producer(graph, first_input(reshape))
    if transpose is None or not is_op(transpose, "Transpose") or not keeps_stored_values(transpose):
        return False
    source, perm = first_input(transpose), perm_of(transpose)
    shape = first_input(reshape).shape
    columns = int(np.prod(shape[1:]))
    if perm[0] != 0 or flat.shape != (shape[0], columns) or weight.shape[1] != columns:
        return False
    if not (is_constant(weight) and is_float(weight)):
        return False
    # (units, c, h, w) to (units, h, w, c), or whatever undoes the transpose
    spread = weight.values().reshape(weight.shape[0], *shape[1:])
    values = spread.transpose(inverse(perm)).reshape(weight.shape)
    ending = _ending(perm, shape)
    moved = static(
        graph,
        f"{weight.name}{ending}",
        values,
        weight.dtype,
        source=weight.source,
        # its rows are still the source's output channels; only their elements are in another order
        source_perm=weight.source_perm,
    )
    again = add(
        graph,
        "Reshape",
        [source],
        name=f"{reshape.name}.last",
        outputs=graph.fresh_name(f"{flat.name}{ending}"),
        spec=flat.spec,
        sources=reshape.sources,
    )
    if ending == _SAME_ORDER:
        again.source, again.source_perm = flat.source, flat.source_perm
    graph.set_inputs(layer, [again, moved, *layer.inputs[2:]])
    for node in (reshape, transpose):
        graph.remove_node(node)
        graph.remove_tensor(node.outputs[0])
    return True


def _ending(perm: Shape, shape: Shape) -> str:
    """Return the ending of the names of weights, for a transpose and the shape after it."""
    spread = [size for size in shape[1:] if size > 1]
    if len(spread) < 2:
        return _SAME_ORDER
    rank = len(perm)
    return COLUMNS_LAST if perm == (0, rank - 1, *range(1, rank - 1)) else COLUMNS_MOVED
