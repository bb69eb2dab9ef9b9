"""Movement of transposes, so that spatial networks run channels-last throughout.

A frontend of a channels-first format puts each spatial op between a transpose to channels-last
before it and one back after it. Each transpose back is moved after the ops that read it, as far as
these do not depend on the layout, until it meets a transpose to channels-last and both cancel. For
values computed before the first spatial op, each channels-first value that leads to one is first
transposed there and back. The remaining transposes are where the graph itself is channels-first:
mostly at its inputs and outputs.

A transformer turns an image to tokens, (n, c, h * w) to (n, h * w, c), and back: the transposes go
through the Reshape before or after that, and cancel, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.errors import QuantizationError
from dovetail.ir import Encoding, Graph, Node, Shape
from dovetail.ops import bind_node
from dovetail_opset._package import PACKAGE, is_op, schema_of
from dovetail_opset.layouts import Moved, rule_of
from dovetail_opset.passes._moving import (
    leads_to_first,
    moved_inputs,
    moved_tensor,
    transposed_already,
    transposed_encoding,
    turns_to_first,
)
from dovetail_opset.passes._rewrite import (
    bypass,
    first_input,
    is_inner,
    keeps_stored_values,
    perm_param,
)
from dovetail_opset.passes._turning import turn_sources
from dovetail_opset.passes.dead_code import DeadCode
from dovetail_opset.perms import composed, inverse, is_identity, perm_of, to_first

_MOST_AXES = 5  # of a tensor that backends of QNN take


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    """Move transposes from channels-last to channels-first downwards until they cancel.

    Graph inputs and outputs keep their layout; an inner tensor whose layout changes records it in
    its `source_perm`.
    """

    name: str = "channels-last"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        turned = turn_sources(graph)
        changed = bool(turned)
        # One sweep: nodes that are added after a node are read by later nodes only.
        for node in graph.nodes:
            if not is_op(node, "Transpose"):
                changed |= _sink(graph, node)
            elif not leads_to_first(graph, node) or (node not in turned and _undoes(graph, node)):
                changed |= _shorten(graph, node) or _share(graph, node)
        # Only now, so that none is removed before it could move.
        for node in graph.nodes:
            if leads_to_first(graph, node):
                changed |= _shorten(graph, node) or _share(graph, node)
        if changed:
            DeadCode().run(graph)
        return changed


def _shorten(graph: Graph, node: Node) -> bool:
    """Merge a transpose of a transposed tensor with the one before, or drop both."""
    before = graph.producer(first_input(node))
    if before is None or not is_op(before, "Transpose") or not keeps_stored_values(before):
        return False
    between, source = first_input(node), first_input(before)
    if source.kind.is_updateable:
        return False
    perm = composed(perm_of(before), perm_of(node))
    graph.set_inputs(node, [source])
    if not is_identity(perm):
        node.params["perm"] = perm_param(perm, node.name)
        return True
    if bypass(graph, node):
        return True
    graph.set_inputs(node, [between])
    return False


def _undoes(graph: Graph, node: Node) -> bool:
    """Return whether a node is the inverse of the transpose before it."""
    before = graph.producer(first_input(node))
    if before is None or not turns_to_first(before):
        return False
    return is_identity(composed(perm_of(before), perm_of(node)))


def _share(graph: Graph, node: Node) -> bool:
    """Replace the second of two equal transposes of a tensor."""
    source, target = first_input(node), node.outputs[0]
    known = transposed_already(graph, source, perm_of(node))
    if known is None or known is target or not is_inner(target) or known.spec != target.spec:
        return False
    if not is_inner(known):
        return False
    graph.replace_uses(target, known)
    return True


def _sink(graph: Graph, node: Node) -> bool:
    """Move the transposes before a node to its outputs, if its op allows it and it helps."""
    perm = _common_perm(graph, node)
    schema = None if perm is None else schema_of(node)
    if schema is None or perm is None:
        return False
    rule = rule_of(node)
    moved = _reshaped(node) if rule is None else rule(bind_node(schema, node), perm)
    if moved is None or any(t.kind.is_updateable for t in node.outputs):
        return False
    params, back = moved
    try:
        encodings = [transposed_encoding(t, inverse(back)) for t in node.outputs]
    except QuantizationError:
        return False  # its blocks run along the axes as they are
    inputs = moved_inputs(graph, node, perm, back)
    if inputs is None:
        return False
    for name, value in params.items():
        node.params[name] = schema.params[name].param_of(value, node.name)
    graph.set_inputs(node, inputs)
    if not is_identity(back):
        _write_moved(graph, node, back, encodings)
    return True


def _reshaped(node: Node) -> Moved | None:
    """Return what `Rule` does for a Reshape: it may divide or join the axes of space alone."""
    if not is_op(node, "Reshape") or len(node.inputs) > 1:
        return None
    x, y = first_input(node).shape, node.outputs[0].shape
    keeps = x[:2] == y[:2] and 3 <= len(y) <= _MOST_AXES
    return ({}, to_first(len(y))) if keeps else None


def _write_moved(
    graph: Graph, node: Node, back: Shape, encodings: Sequence[Encoding | None]
) -> None:
    """Write a node's outputs in the new layout, and transpose them to the old one."""
    pairs = list(zip(node.outputs, encodings, strict=True))
    made = [moved_tensor(graph, old, back, encoding) for old, encoding in pairs]
    graph.set_outputs(node, made)
    for (old, _), new in zip(pairs, made, strict=True):
        # unchecked: most of these are moved on, and removed
        name = graph.fresh_name(f"{old.name}.to_source")
        params = {"perm": perm_param(back, name)}
        turned = Node(name, PACKAGE.name, "Transpose", [new], [old], params, sources=node.sources)
        graph.add_node(turned)


def _common_perm(graph: Graph, node: Node) -> Shape | None:
    """Return the common perm of the transposes that a node reads; None if they differ."""
    perms = set()
    for tensor in node.inputs:
        maker = None if tensor is None else graph.producer(tensor)
        if maker is None or not is_op(maker, "Transpose"):
            continue
        if turns_to_first(maker) if is_op(node, "Reshape") else leads_to_first(graph, maker):
            perms.add(perm_of(maker))
    return perms.pop() if len(perms) == 1 else None
