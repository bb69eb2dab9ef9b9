"""Estimate of the work of a whole graph, to choose how many threads compute it."""

from __future__ import annotations

import math

from dovetail.ops import CheckedGraph, NodeView
from dovetail_onednn.threads import LEAST_SHARED, LEAST_SHARED_ELEMENTS

# Products below which a whole graph is for one thread: some 40 us of work on a core of 2024, where
# two threads gain nothing over the time that Python takes from step to step. On a busy machine each
# of the few points where threads wait may take milliseconds.
LEAST_SHARED_BY_GRAPH = 1 << 21
_PRODUCTS_OF_ELEMENT = LEAST_SHARED // LEAST_SHARED_ELEMENTS  # that take as long as an element


def is_for_one_thread(graph: CheckedGraph) -> bool:
    """Return whether a graph has so little work that two threads gain nothing."""
    return sum(map(products, graph.nodes)) < LEAST_SHARED_BY_GRAPH


def products(view: NodeView) -> int:
    """Return the products that a node computes; elements count as the products they cost."""
    elements = max((math.prod(spec.shape) for spec in view.outs), default=0)
    return max(view.work, elements * _PRODUCTS_OF_ELEMENT)
