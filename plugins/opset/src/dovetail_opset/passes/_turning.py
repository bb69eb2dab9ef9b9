"""Transposition of channels-first values that spatial ops read by way of other ops."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.ir import Graph, Node, Tensor
from dovetail_opset._package import is_op
from dovetail_opset.build import add
from dovetail_opset.layouts import rule_of
from dovetail_opset.passes._moving import add_transposed, is_before_spatial
from dovetail_opset.passes._rewrite import first_input
from dovetail_opset.perms import inverse, to_last


def turn_sources(graph: Graph) -> list[Node]:
    """Add a transpose and its inverse after values that spatial ops read by way of other ops.

    Returns:
        The inverse transposes.
    """
    leading = _leading_to_last(graph)
    if not leading:
        return []
    made = (t for n in graph.nodes if rule_of(n) is None for t in n.outputs)
    added: list[Node] = []
    for tensor in (*graph.inputs, *made):
        if tensor not in leading or tensor.kind.is_updateable:
            continue
        if is_op(graph.producer(tensor), "Transpose"):
            continue
        readers = graph.consumers(tensor)
        if any(rule_of(r) is not None and not leading.isdisjoint(r.outputs) for r in readers):
            added.append(_turn(graph, tensor, readers))
    return added


def _leading_to_last(graph: Graph) -> set[Tensor]:
    """Return the tensors that reach a transpose to channels-last through ops with a rule."""
    found: set[Tensor] = set()
    for node in reversed(graph.nodes):
        if is_before_spatial(graph, node):
            found.add(first_input(node))
        elif rule_of(node) is not None:
            ranks = {len(t.shape) for t in node.outputs if t in found}
            found |= {t for t in node.inputs if t is not None and len(t.shape) in ranks}
    return found


def _turn(graph: Graph, tensor: Tensor, readers: Sequence[Node]) -> Node:
    perm = to_last(len(tensor.shape))
    there = add_transposed(graph, tensor, inverse(perm))
    name = f"{tensor.name}.first"
    back = add(graph, "Transpose", [there], name=name, sources=(), perm=inverse(perm))
    back.source, back.source_perm = tensor.source, tensor.source_perm
    for node in readers:
        graph.replace_input(node, tensor, back)
    (added,) = [n for n in graph.consumers(there) if n.outputs[0] is back]
    return added
