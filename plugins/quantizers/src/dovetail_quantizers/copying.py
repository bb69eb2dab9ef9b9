"""Copies of graphs: what a quantizer changes is never what the user gave."""

from __future__ import annotations

from collections.abc import Collection

from dovetail.ir import Graph, Node, Tensor, TensorKind


def copy_graph(graph: Graph, *, watched: Collection[str] = ()) -> Graph:
    """Gives a copy that shares the data of static tensors.

    Args:
        graph: Not changed.
        watched: Names of inner tensors that are to be outputs of the copy.
    """
    made = Graph(graph.name)
    tensors = {t: made.add_tensor(_copy(t, t.name in watched)) for t in graph.tensors.values()}
    for node in graph.nodes:
        made.add_node(
            Node(
                node.name,
                node.package,
                node.op_type,
                [None if t is None else tensors[t] for t in node.inputs],
                [tensors[t] for t in node.outputs],
                node.params,
                sources=node.sources,
            )
        )
    return made


def _copy(tensor: Tensor, watched: bool) -> Tensor:
    inner = (TensorKind.NATIVE, TensorKind.UPDATEABLE_NATIVE)
    return Tensor(
        tensor.name,
        tensor.dtype,
        tensor.shape,
        TensorKind.APP_READ if watched and tensor.kind in inner else tensor.kind,
        encoding=tensor.encoding,
        data=tensor.data,
        source=tensor.source,
        source_perm=tensor.source_perm,
    )
