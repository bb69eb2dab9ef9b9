"""Makes reshapes of transposes that only look like work."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, Node, ScaleOffset
from dovetail_opset.passes._rewrite import first_input, is_op, perm_of, to_reshape


@dataclass(frozen=True, slots=True)
class ReshapeTransposes:
    """Makes a Transpose that moves only extents of 1 a Reshape, which costs nothing to run.

    It runs when channels-last is through: that moves transposes out of the way of fusions, and
    reshapes it cannot move.
    """

    name: str = "reshape-transposes"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            if is_op(node, "Transpose") and _keeps_order(node):
                to_reshape(graph, node)
                changed = True
        return changed


def _keeps_order(node: Node) -> bool:
    source = first_input(node)
    moved = [p for p in perm_of(node) if source.shape[p] != 1]
    # scales by axis would have to say which axis that is now
    return moved == sorted(moved) and isinstance(source.encoding, ScaleOffset | None)
