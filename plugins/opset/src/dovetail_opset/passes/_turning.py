"""Transposition of channels-first values that spatial ops read by way of other ops."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.ir import Graph, Node, Tensor
from dovetail_opset._package import is_op
from dovetail_opset.build import add
from dovetail_opset.layouts import rule_of
from dovetail_opset.passes._moving import add_transposed
from dovetail_opset.passes._rewrite import first_input, perm_of
from dovetail_opset.perms import inverse, is_to_last, to_last


def turn_sources(graph: Graph) -> bool:
    """Add a transpose and its inverse after values that spatial ops read by way of other ops."""
    leading = _leading_to_last(graph)
    made = (t for n in graph.nodes if rule_of(n) is None for t in n.outputs)
    changed = False
    for tensor in (*graph.inputs, *made):
        maker, readers = graph.producer(tensor), graph.consumers(tensor)
        turned = maker is not None and is_op(maker, "Transpose")
        if tensor not in leading or turned or tensor.kind.is_updateable:
            continue
        if any(rule_of(r) is not None and not leading.isdisjoint(r.outputs) for r in readers):
            _turn(graph, tensor, readers)
            changed = True
    return changed


def _leading_to_last(graph: Graph) -> set[Tensor]:
    """Return the tensors that reach a transpose to channels-last through ops with a rule."""
    found: set[Tensor] = set()
    for node in reversed(graph.nodes):
        if is_op(node, "Transpose") and is_to_last(perm_of(node)):
            found.add(first_input(node))
        elif rule_of(node) is not None:
            ranks = {len(t.shape) for t in node.outputs if t in found}
            found |= {t for t in node.inputs if t is not None and len(t.shape) in ranks}
    return found


def _turn(graph: Graph, tensor: Tensor, readers: Sequence[Node]) -> None:
    perm = to_last(len(tensor.shape))
    there = add_transposed(graph, tensor, inverse(perm))
    name = f"{tensor.name}.first"
    back = add(graph, "Transpose", [there], name=name, sources=(), perm=inverse(perm))
    back.source, back.source_perm = tensor.source, tensor.source_perm
    for node in readers:
        graph.set_inputs(node, [back if t is tensor else t for t in node.inputs])
