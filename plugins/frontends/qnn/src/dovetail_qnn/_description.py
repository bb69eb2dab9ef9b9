"""The extras of a graph: what its file does not say otherwise."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from dovetail.container.entries import dump_encoding
from dovetail.ir import Graph, MemoryType, Node, Tensor
from dovetail_qnn._extras import (
    NO_NODE,
    NO_TENSOR,
    NOTHING,
    Extras,
    GridExtras,
    NodeExtras,
    TensorExtras,
)
from dovetail_qnn._layouts import layouts_of, permutation_of
from dovetail_qnn._names import FileNames


def describe(graph: Graph, names: FileNames, file_name: str) -> Extras | None:
    """Return the extras of a graph in a file; None if there are none.

    Args:
        graph: The graph.
        names: Names of its tensors and nodes in the file.
        file_name: The name that the file gives the graph.
    """
    tensors = {names.tensors[t]: _tensor(t, names.tensors[t]) for t in graph.tensors.values()}
    nodes = {names.nodes[node]: _node(node, names.nodes[node]) for node in graph.nodes}
    extras = Extras(
        graph=_unless(graph.name, file_name),
        tensors={name: found for name, found in tensors.items() if found != NO_TENSOR},
        nodes={name: found for name, found in nodes.items() if found != NO_NODE},
        grids={
            source: GridExtras(int(spec.dtype), spec.shape, dump_encoding(spec.encoding, None, ""))
            for source, spec in graph.source_encodings.items()
            if spec.encoding is not None
        },
        removed_sources=tuple(sorted(graph.removed_sources)),
    )
    return None if extras == NOTHING else extras


def _tensor(tensor: Tensor, file_name: str) -> TensorExtras:
    layouts = layouts_of(tensor.source_perm, static=tensor.kind.is_static)
    is_said = tensor.source_perm == permutation_of(*layouts)
    return TensorExtras(
        name=_unless(tensor.name, file_name),
        source=_unless(tensor.source, tensor.name),
        source_perm=UNSET if is_said else tensor.source_perm,
        dynamic=tensor.dynamic,
        memory_type=MemoryType(tensor.memory_type),
    )


def _node(node: Node, file_name: str) -> NodeExtras:
    stated = len(without_trailing(node.inputs))
    params = {
        name: _tensor(param, f"{node.name}.{name}")
        for name, param in node.params.items()
        if isinstance(param, Tensor)
    }
    return NodeExtras(
        name=_unless(node.name, file_name),
        sources=None if node.sources == (node.name,) else node.sources,
        inputs=None if stated == len(node.inputs) else len(node.inputs),
        params={name: found for name, found in params.items() if found != NO_TENSOR},
    )


def without_trailing(inputs: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """Return inputs without the omitted ones at the end."""
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    return inputs


def _unless(value: Any, default: Any) -> Any:
    return None if value == default else value
