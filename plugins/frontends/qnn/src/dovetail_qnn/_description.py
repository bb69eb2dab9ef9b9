"""The extras of a graph: what its file does not say otherwise."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import Any

from msgspec import UNSET

from dovetail.container.entries import EncodingEntry, dump_encoding
from dovetail.ir import Encoding, Graph, MemoryType, Node, Tensor
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
from dovetail_qnn._names import Names


def describe(
    graph: Graph,
    names: Names,
    file_name: str,
    *,
    has_layouts: bool,
    has_omitted: bool = False,
    own: Container[Tensor] = (),
    stated: Collection[str] = (),
    order: Sequence[str] = (),
) -> Extras | None:
    """Return the extras of a graph in a file; None if there are none.

    Args:
        graph: The graph.
        names: Names of its tensors and nodes in the file.
        file_name: The name that the file gives the graph.
        has_layouts: Whether the file states layouts.
        has_omitted: Whether the file states omitted inputs at the end, too.
        own: Tensors whose encodings the file cannot state.
        stated: Sources whose encodings in `Graph.source_encodings` are in the file.
        order: The order of the tensors in the file; by default that of the graph.
    """
    tensors = {
        names.tensors[t]: _tensor(t, names.tensors[t], has_layouts, own)
        for t in graph.tensors.values()
    }
    nodes = {
        names.nodes[node]: _node(node, names.nodes[node], has_layouts, has_omitted, own)
        for node in graph.nodes
    }
    wanted = tuple(names.tensors[t] for t in graph.tensors.values())
    extras = Extras(
        graph=_unless(graph.name, file_name),
        tensors={name: found for name, found in tensors.items() if found != NO_TENSOR},
        nodes={name: found for name, found in nodes.items() if found != NO_NODE},
        grids={
            source: GridExtras(int(spec.dtype), spec.shape, _encoding(spec.encoding))
            for source, spec in graph.source_encodings.items()
            if source not in stated
        },
        removed_sources=tuple(sorted(graph.removed_sources)),
        order=() if not order or tuple(order) == wanted else wanted,
    )
    return None if extras == NOTHING else extras


def _tensor(
    tensor: Tensor, file_name: str, has_layouts: bool, own: Container[Tensor]
) -> TensorExtras:
    layouts = layouts_of(tensor.source_perm, static=tensor.kind.is_static)
    stated = permutation_of(*layouts) if has_layouts else None
    return TensorExtras(
        name=_unless(tensor.name, file_name),
        source=_unless(tensor.source, tensor.name),
        source_perm=UNSET if tensor.source_perm == stated else tensor.source_perm,
        dynamic=tensor.dynamic,
        memory_type=MemoryType(tensor.memory_type),
        encoding=_encoding(tensor.encoding) if tensor in own else None,
    )


def _encoding(encoding: Encoding | None) -> EncodingEntry | None:
    return None if encoding is None else dump_encoding(encoding, None, "")


def _node(
    node: Node, file_name: str, has_layouts: bool, has_omitted: bool, own: Container[Tensor]
) -> NodeExtras:
    stated = len(node.inputs if has_omitted else without_trailing(node.inputs))
    params = {
        name: _tensor(param, f"{node.name}.{name}", has_layouts, own)
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
