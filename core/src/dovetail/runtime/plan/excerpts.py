"""Excerpts of graphs: the nodes whose steps are made again, and their neighbors.

An image holds one, so that it needs no model to be restored.
"""

from __future__ import annotations

from collections.abc import Collection

from dovetail.ir import Graph, Node, Tensor, static_tensors
from dovetail.ops import CheckedGraph, NodeView, OpRegistry, checked_node, opaque_node
from dovetail.runtime.plan.recipes import RecipeError


def excerpt_of(graph: CheckedGraph, names: Collection[str]) -> Graph:
    """Return an excerpt of a graph.

    Kernels see which nodes write and read the tensors of their own; of these others, the excerpt
    has no constants.

    Args:
        graph: The graph, or an excerpt of it.
        names: Names of the nodes whose steps are made again.
    """
    chosen = {view.node for view in graph.nodes if view.node.name in names}
    kept: dict[Node, None] = {}
    for node in chosen:
        writers = [graph.producer(t) for t in node.inputs if t is not None]
        readers = [reader for t in node.outputs for reader in graph.consumers(t)]
        kept |= dict.fromkeys((node, *readers, *filter(None, writers)))
    found = Graph(graph.name)
    for node in (view.node for view in graph.nodes if view.node in kept):
        inputs = [t if node in chosen else _computed(t) for t in node.inputs]
        for tensor in (*inputs, *node.outputs):
            if tensor is not None and tensor.name not in found.tensors:
                found.add_tensor(tensor)
        found.add_node(node.with_tensors(inputs, node.outputs))
    return found


def checked_excerpt(graph: Graph, names: Collection[str], ops: OpRegistry) -> CheckedGraph:
    """Return an excerpt whose nodes match their ops.

    Args:
        graph: The excerpt, without structural faults.
        names: Names of the nodes whose steps are made again; others are opaque.
        ops: The op registry.

    Raises:
        ContainerError: Nodes do not match their ops; every reason is listed.
    """
    views: dict[Node, NodeView] = {}
    faults = []
    for node in graph.nodes:
        view, own = checked_node(node, ops) if node.name in names else (opaque_node(node), [])
        faults += own
        if view is not None:
            views[node] = view
    if faults:
        raise RecipeError("nodes do not match their ops", problems=faults)
    return CheckedGraph.of(graph, views)


def hashes_of(graph: Graph) -> set[str]:
    """Return the hashes of the data that no update changes."""
    tensors = (t for t in static_tensors(graph) if not t.kind.is_updateable)
    return {tensor.data.hash for tensor in tensors if tensor.data is not None}


def _computed(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor that is no constant, else None."""
    return None if tensor is None or tensor.kind.is_static else tensor
