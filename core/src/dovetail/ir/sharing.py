"""Sharing of equal data by several graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dovetail.ir.graph import Graph
from dovetail.ir.storage import Blob
from dovetail.ir.tensor import Tensor


def static_tensors(graph: Graph) -> Iterator[Tensor]:
    """Yield the tensors with data: those of the graph, and those that are params."""
    tensors = [*graph.tensors.values()]
    tensors += [p for node in graph.nodes for p in node.params.values() if isinstance(p, Tensor)]
    return (tensor for tensor in tensors if tensor.data is not None)


def share_blobs(graphs: Iterable[Graph], known: Iterable[Graph] = ()) -> None:
    """Replace the data of graphs by equal data that an earlier tensor has.

    Args:
        graphs: Graphs whose tensors are changed.
        known: Graphs that come first; they stay as they are.
    """
    found: dict[str, Blob] = {
        tensor.data.hash: tensor.data
        for graph in known
        for tensor in static_tensors(graph)
        if tensor.data is not None
    }
    for graph in graphs:
        for tensor in static_tensors(graph):
            if tensor.data is not None:
                tensor.data = found.setdefault(tensor.data.hash, tensor.data)
