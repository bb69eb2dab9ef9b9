"""Copies of graphs and tensors, to be changed without changing the original."""

from __future__ import annotations

from collections.abc import Collection

from dovetail.ir.graph import Graph
from dovetail.ir.tensor import Spec, Tensor, TensorKind

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


def copy_tensor(
    tensor: Tensor, kind: TensorKind | None = None, *, name: str | None = None
) -> Tensor:
    """Return a copy that shares the data, with another kind or name if one is given."""
    return Tensor(
        tensor.name if name is None else name,
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


def add_like(
    graph: Graph,
    tensor: Tensor,
    stem: str,
    spec: Spec | None = None,
    kind: TensorKind = TensorKind.NATIVE,
) -> Tensor:
    """Add a tensor without data that is the same tensor of the user's model, and return it.

    Args:
        graph: The graph.
        tensor: The other tensor; the new one has its source and its layout.
        stem: Beginning of the name, which is a fresh one.
        spec: The type, shape and encoding; by default those of the tensor, without an encoding.
        kind: The writer and reader.
    """
    if spec is None:
        spec = Spec(tensor.dtype, tensor.shape)
    return graph.add_tensor(
        Tensor(
            graph.fresh_name(stem),
            spec.dtype,
            spec.shape,
            kind,
            encoding=spec.encoding,
            source=tensor.source,
            source_perm=tensor.source_perm,
        )
    )
