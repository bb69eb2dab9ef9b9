"""Restoration of the names of the user's model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.files import identifier
from dovetail.ir import Graph, Node, Tensor
from dovetail_opset._package import is_op
from dovetail_opset.passes._rewrite import is_inner
from dovetail_opset.passes.fold_flatten import COLUMNS_LAST, COLUMNS_MOVED
from dovetail_opset.perms import is_to_last

# Ops that arrange or retype values: of several nodes for one operator, the main one is another.
_ARRANGING = frozenset(("Transpose", "Reshape", "ExpandDims", "Squeeze", "Cast", "Convert"))


@dataclass(frozen=True, slots=True)
class RestoreNames:
    """Rename tensors and nodes to the names of the user's model.

    A tensor gets the name of its source if no other tensor has it: this includes the channels-last
    form of a tensor whose channels-first form no longer exists. If both forms exist, the one in the
    user's layout has the name, and the other one is named after it. Weights with reordered columns
    keep a name that says so.

    A node gets the name of the operator that it comes from; of several nodes, the last one that
    computes does. The others keep derived names, and the remaining transposes and reshapes are
    named after their outputs. Inputs and outputs of the graph are never renamed, nor is what has
    its name as QNN's converters write it, an identifier of C.
    """

    name: str = "restore-names"

    def run(self, graph: Graph) -> bool:
        """Rename in place; return whether anything was renamed."""
        before = {node: node.name for node in graph.nodes}
        tensors = _tensor_names(graph)
        nodes = _node_names(graph, tensors)
        _rename(graph, tensors, nodes)
        parts = _part_names(graph, before)
        _rename(graph, parts, {})
        return bool(tensors or nodes or parts)


def _tensor_names(graph: Graph) -> dict[Tensor, str]:
    """Return the new names of tensors whose name differs from that of their source."""
    moved = [t for t in graph.tensors.values() if _is_renamable(t)]
    moved.sort(key=lambda t: t.source_perm is not None)  # stable: the user's own layout first
    taken = set(graph.tensors) - {t.name for t in moved}
    found = {}
    for tensor in moved:
        stem = tensor.source if tensor.source not in taken else _other_form(tensor)
        found[tensor] = _free(stem, taken)
    return {t: name for t, name in found.items() if t.name not in (name, identifier(name))}


def _is_renamable(tensor: Tensor) -> bool:
    """Return whether a tensor is internal or constant, and its name differs from its source's."""
    if tensor.name == tensor.source or not (is_inner(tensor) or tensor.kind.is_static):
        return False
    if tensor.name == identifier(tensor.source):
        return False
    return not any(mark in tensor.name for mark in (COLUMNS_LAST, COLUMNS_MOVED))


def _other_form(tensor: Tensor) -> str:
    """Return the name of a tensor if another one has the name of the source."""
    perm = tensor.source_perm
    if perm is None:
        return tensor.name
    return f"{tensor.source}.{'channels_last' if is_to_last(perm) else 'transposed'}"


def _node_names(graph: Graph, tensors: dict[Tensor, str]) -> dict[Node, str]:
    """Return the new names of nodes."""
    claims: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if (source := _main_source(node)) is not None:
            claims.setdefault(source, []).append(node)
    winners = {source: _main_node(nodes, source) for source, nodes in claims.items()}
    names = {node: source for source, node in winners.items()}
    taken = {*names.values(), *(n.name for n in graph.nodes if not _is_arranging(n))}
    for node in graph.nodes:
        if node in names or _is_in_c(node):
            continue
        left = [s for s in reversed(node.sources) if s not in claims and s not in taken]
        if left:
            names[node] = _free(left[0], taken)
        elif _is_arranging(node):
            names[node] = _free(_arranging_name(node, tensors), taken)
        elif node.name in winners:
            names[node] = _free(f"{node.name}.{node.op_type}", taken)
    return {n: name for n, name in names.items() if n.name not in (name, identifier(name))}


def _is_in_c(node: Node) -> bool:
    """Return whether a node's name is that of a source as QNN's converters write it."""
    return node.name not in node.sources and node.name in map(identifier, node.sources)


def _main_source(node: Node) -> str | None:
    """Return the source that is a node's name, or its beginning."""
    if node.name in node.sources:
        return node.name
    return next((s for s in node.sources if node.name.startswith(f"{s}.")), None)


def _main_node(nodes: Sequence[Node], source: str) -> Node:
    """Return the main node of an operator: the last that computes, or one with its name."""
    return max(reversed(nodes), key=lambda n: (not _is_arranging(n), n.name == source))


def _is_arranging(node: Node) -> bool:
    return is_op(node, *_ARRANGING)


def _arranging_name(node: Node, tensors: dict[Tensor, str]) -> str:
    """Return the name of an arranging node: its output's, unless that is from the user's model."""
    written = node.outputs[0]
    name = tensors.get(written, written.name)
    return f"{name}.{node.op_type.lower()}" if name == written.source else name


def _part_names(graph: Graph, before: dict[Node, str]) -> dict[Tensor, str]:
    """Return the new names of constants that are named after a renamed node."""
    taken = set(graph.tensors)
    found = {}
    for node, old in before.items():
        if node.name == old:
            continue
        for tensor in node.inputs:
            if tensor is not None and tensor.kind.is_static and tensor.name.startswith(f"{old}."):
                found[tensor] = _free(f"{node.name}{tensor.name[len(old) :]}", taken)
    return found


def _free(stem: str, taken: set[str]) -> str:
    """Return a name like `stem` that is not taken, and take it."""
    name, count = stem, 1
    while name in taken:
        name, count = f"{stem}_{count}", count + 1
    taken.add(name)
    return name


def _rename(graph: Graph, tensors: dict[Tensor, str], nodes: dict[Node, str]) -> None:
    for tensor, name in tensors.items():
        if tensor.source == tensor.name:  # a constant of the conversion's own
            tensor.source = name
            if tensor.name in graph.source_encodings:
                graph.source_encodings[name] = graph.source_encodings.pop(tensor.name)
    graph.rename(tensors, nodes)
