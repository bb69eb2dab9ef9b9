"""Replacement of transposes that move no data by reshapes."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, Node
from dovetail_opset._package import nodes_of
from dovetail_opset.passes._rewrite import first_input, has_one_scale, to_reshape
from dovetail_opset.perms import perm_of


@dataclass(frozen=True, slots=True)
class ReshapeTransposes:
    """Replace a Transpose that moves only axes of size 1 by a Reshape, which is free.

    It runs after channels-last, which moves transposes out of the way of fusions but cannot move
    reshapes.
    """

    name: str = "reshape-transposes"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in nodes_of(graph, "Transpose"):
            if _keeps_order(node):
                to_reshape(graph, node)
                changed = True
        return changed


def _keeps_order(node: Node) -> bool:
    source = first_input(node)
    moved = [p for p in perm_of(node) if source.shape[p] != 1]
    return moved == sorted(moved) and has_one_scale(source)
