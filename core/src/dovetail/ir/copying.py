"""Copies of graphs, to be changed without changing the original."""

from __future__ import annotations

from collections.abc import Collection

from dovetail.ir.graph import Graph
from dovetail.ir.tensor import Tensor, TensorKind

_AS_OUTPUT = {
    TensorKind.NATIVE: TensorKind.APP_READ,
    TensorKind.UPDATEABLE_NATIVE: TensorKind.UPDATEABLE_APP_READ,
}


def copy_graph(graph: Graph, *, outputs: Collection[str] = ()) -> Graph:
    """Return a copy that shares the data of static tensors and the params of nodes.

    Args:
        graph: Not changed.
        outputs: Names of inner tensors that become additional outputs of the copy.
    """
    made = Graph(graph.name)
    made.source_encodings = dict(graph.source_encodings)
    made.removed_sources = graph.removed_sources
    tensors = {
        t: made.add_tensor(copy_tensor(t, _AS_OUTPUT.get(t.kind) if t.name in outputs else None))
        for t in graph.tensors.values()
    }
    for node in graph.nodes:
        inputs = [None if t is None else tensors[t] for t in node.inputs]
        made.add_node(node.with_tensors(inputs, [tensors[t] for t in node.outputs]))
    return made


def copy_tensor(tensor: Tensor, kind: TensorKind | None = None) -> Tensor:
    """Return a copy that shares the data, of another kind if one is given."""
    return Tensor(
        tensor.name,
        tensor.dtype,
        tensor.shape,
        tensor.kind if kind is None else kind,
        encoding=tensor.encoding,
        data=tensor.data,
        source=tensor.source,
        source_perm=tensor.source_perm,
        dynamic=tensor.dynamic,
        memory_type=tensor.memory_type,
        data_format=tensor.data_format,
    )
