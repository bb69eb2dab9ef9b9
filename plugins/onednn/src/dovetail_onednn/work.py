"""Estimate of the work of a whole graph, to choose how many threads compute it."""

from __future__ import annotations

import math

from dovetail.ir import Node
from dovetail.ops import CheckedGraph
from dovetail_onednn.threads import LEAST_SHARED, LEAST_SHARED_ELEMENTS

# Products below which a whole graph is for one thread: some 40 us of work on a core of 2024, where
# two threads gain nothing over the time that Python takes from step to step. On a busy machine each
# of the few points where threads wait may take milliseconds.
LEAST_SHARED_BY_GRAPH = 1 << 21
_PRODUCTS_OF_ELEMENT = LEAST_SHARED // LEAST_SHARED_ELEMENTS  # that take as long as an element


def is_for_one_thread(graph: CheckedGraph) -> bool:
    """Return whether a graph has so little work that two threads gain nothing."""
    return sum(products(view.node) for view in graph.nodes) < LEAST_SHARED_BY_GRAPH


def products(node: Node) -> int:
    """Return about how many products a node computes; elements count as the products they cost.

    Convolutions, products and recurrent layers multiply each position of the result, which is an
    output without its last axis, by all of the weights. Transposed convolutions multiply fewer.
    """
    elements = max((math.prod(t.shape) for t in node.outputs), default=0)
    positions = max((math.prod(t.shape[:-1]) for t in node.outputs), default=0)
    matrices = [t for t in node.inputs if t is not None and len(t.shape) > 1]
    static = sum(math.prod(t.shape) for t in matrices if t.kind.is_static)
    if node.op_type == "MatMul" and not static and matrices:
        return elements * matrices[0].shape[-1]
    return max(positions * static, elements * _PRODUCTS_OF_ELEMENT)
