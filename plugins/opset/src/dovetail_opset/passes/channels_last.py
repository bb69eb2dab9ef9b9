"""Pushes transposes out of the graph, so that spatial networks run channels-last throughout.

A frontend of a channels-first format puts each spatial op between a transpose to channels-last
before it and one back after it. Each transpose back is moved behind the ops that read it, as far as
these do not care about layout, until it meets a transpose to channels-last and both cancel. So
that this also works for what is computed before the first spatial op, each channels-first value
that leads to one is first transposed there and back. What is left stands where the graph itself is
channels-first: at its inputs and outputs, mostly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.errors import QuantizationError
from dovetail.ir import AxisScaleOffset, Encoding, Graph, Node, ScaleOffset, Shape, Tensor
from dovetail.ops import bind_node
from dovetail_opset.build import add, static
from dovetail_opset.passes._layout import ONLY_FIRST_MOVES, RULES
from dovetail_opset.passes._rewrite import (
    composed,
    first_input,
    inverse,
    is_fixed,
    is_identity,
    is_inner,
    is_op,
    keeps_stored_values,
    perm_of,
    schema_of,
    source_perm_after,
)
from dovetail_opset.passes.dead_code import DeadCode


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    """Moves transposes from channels-last to channels-first downwards until they cancel.

    Graph inputs and outputs keep their layout; an inner tensor whose layout changes says so in its
    `source_perm`.
    """

    name: str = "channels-last"

    def run(self, graph: Graph) -> bool:
        """Rewrites the graph in place; gives whether it changed anything."""
        changed = _turn_sources(graph)
        # One sweep: whatever is put behind a node is seen by its readers, which come later.
        for node in graph.nodes:
            if not is_op(node, "Transpose"):
                changed |= _sink(graph, node)
            elif not _leads_to_channels_first(node):
                changed |= _shorten(graph, node) or _share(graph, node)
        # Only now, so that none was taken away before it could move.
        for node in graph.nodes:
            if _leads_to_channels_first(node):
                changed |= _shorten(graph, node) or _share(graph, node)
        if changed:
            DeadCode().run(graph)
        return changed


def _turn_sources(graph: Graph) -> bool:
    """Puts a transpose there and back behind what spatial ops read through other ops."""
    leading = _leading_to_last(graph)
    made = (t for n in graph.nodes if n.op_type not in RULES for t in n.outputs)
    changed = False
    for tensor in (*graph.inputs, *made):
        maker, readers = graph.producer(tensor), graph.consumers(tensor)
        turned = maker is not None and is_op(maker, "Transpose")
        if tensor not in leading or turned or tensor.kind.is_updateable:
            continue
        if any(r.op_type in RULES and not leading.isdisjoint(r.outputs) for r in readers):
            _turn(graph, tensor, readers)
            changed = True
    return changed


def _leading_to_last(graph: Graph) -> set[Tensor]:
    """Gives the tensors that reach a transpose to channels-last through ops with a rule."""
    found: set[Tensor] = set()
    for node in reversed(graph.nodes):
        if is_op(node, "Transpose") and _is_to_last(perm_of(node)):
            found.add(first_input(node))
        elif node.op_type in RULES:
            ranks = {len(t.shape) for t in node.outputs if t in found}
            found |= {t for t in node.inputs if t is not None and len(t.shape) in ranks}
    return found


def _turn(graph: Graph, tensor: Tensor, readers: Sequence[Node]) -> None:
    perm = _to_last(len(tensor.shape))
    there = _transposed(graph, tensor, inverse(perm))
    back = add(graph, "Transpose", [there], name=f"{tensor.name}.first", perm=inverse(perm))
    back.source, back.source_perm = tensor.source, tensor.source_perm
    for node in readers:
        graph.set_inputs(node, [back if t is tensor else t for t in node.inputs])


def _to_last(rank: int) -> Shape:
    return (0, *range(2, rank), 1)


def _is_to_last(perm: Shape) -> bool:
    return len(perm) > 2 and perm == _to_last(len(perm))


def _shorten(graph: Graph, node: Node) -> bool:
    """Makes a transpose of a transposed tensor read the tensor before; drops one that is undone."""
    before = graph.producer(first_input(node))
    if before is None or not is_op(before, "Transpose") or not keeps_stored_values(before):
        return False
    source, target = first_input(before), node.outputs[0]
    perm = composed(perm_of(before), perm_of(node))
    if not is_identity(perm):
        schema = schema_of(node)
        if schema is not None:
            node.params["perm"] = schema.params["perm"].param_of(perm, node.name)
        graph.set_inputs(node, [source])
        return True
    if source.spec != target.spec:
        return False
    if is_inner(target):
        graph.replace_uses(target, source)
        return True
    # The graph's own output: write it directly, where the application cannot see the difference.
    maker = graph.producer(source)
    if maker is None or not is_inner(source):
        return False
    graph.remove_node(node)
    graph.set_outputs(maker, [target if t is source else t for t in maker.outputs])
    graph.replace_uses(source, target)
    graph.remove_tensor(source)
    return True


def _share(graph: Graph, node: Node) -> bool:
    """Makes one of two equal transposes of a tensor."""
    source, target = first_input(node), node.outputs[0]
    twin = _transposed_already(graph, source, perm_of(node))
    if twin is None or twin is target or not is_inner(target) or twin.spec != target.spec:
        return False
    if not is_inner(twin):
        return False
    graph.replace_uses(target, twin)
    return True


def _transposed_already(graph: Graph, tensor: Tensor, perm: Shape) -> Tensor | None:
    for reader in graph.consumers(tensor):
        if is_op(reader, "Transpose") and perm_of(reader) == perm:
            return reader.outputs[0]
    return None


def _sink(graph: Graph, node: Node) -> bool:
    """Moves the transposes before a node behind it, if the node allows it and it is of use."""
    rule, schema = RULES.get(node.op_type), schema_of(node)
    perm = _common_perm(graph, node)
    if rule is None or schema is None or perm is None:
        return False
    moved = rule(bind_node(schema, node), perm)
    if moved is None or any(t.kind.is_updateable for t in node.outputs):
        return False
    params, back = moved
    try:
        encodings = [_transposed_encoding(t.encoding, inverse(back)) for t in node.outputs]
    except QuantizationError:
        return False  # its blocks run along the axes as they are
    inputs = _moved_inputs(graph, node, perm, back)
    if inputs is None:
        return False
    for name, value in params.items():
        node.params[name] = schema.params[name].param_of(value, node.name)
    graph.set_inputs(node, inputs)
    if not is_identity(back):
        _write_moved(graph, node, back, encodings)
    return True


def _write_moved(
    graph: Graph, node: Node, back: Shape, encodings: Sequence[Encoding | None]
) -> None:
    """Makes a node write outputs in the new layout, with transposes to the old ones behind it."""
    pairs = list(zip(node.outputs, encodings, strict=True))
    made = [_moved_tensor(graph, old, back, encoding) for old, encoding in pairs]
    graph.set_outputs(node, made)
    for (old, _), new in zip(pairs, made, strict=True):
        name = f"{old.name}.to_source"
        add(graph, "Transpose", [new], name=name, outputs=old, sources=node.sources, perm=back)


def _common_perm(graph: Graph, node: Node) -> Shape | None:
    """Gives the perm of the transposes that a node reads, if it reads any and they agree."""
    perms = set()
    for tensor in node.inputs:
        maker = None if tensor is None else graph.producer(tensor)
        if maker is not None and _leads_to_channels_first(maker):
            perms.add(perm_of(maker))
    return perms.pop() if len(perms) == 1 else None


def _leads_to_channels_first(node: Node) -> bool:
    """Whether a node is a transpose that a frontend puts behind a spatial op.

    Others, as in attention, have no partner to meet.
    """
    if not is_op(node, "Transpose") or not keeps_stored_values(node):
        return False
    return _is_to_last(inverse(perm_of(node)))


def _moved_inputs(graph: Graph, node: Node, perm: Shape, back: Shape) -> list[Tensor | None] | None:
    """Gives a node's inputs in the new layout, or None where that would not pay."""
    moving = node.inputs[:1] if node.op_type in ONLY_FIRST_MOVES else node.inputs
    free = {t: _free(graph, t, perm) for t in moving if t is not None}
    costly = [t for t, new in free.items() if new is None and not _is_movable(t, perm)]
    if costly:
        # A transpose of one input pays if it takes those before and behind the node away.
        same_rank = all(len(t.shape) == len(perm) for t in costly)
        pays = len(costly) <= len(free) - len(costly) and _cancels_behind(graph, node, back)
        if not (same_rank and pays):
            return None
    for tensor, new in free.items():
        if new is None:
            made = _transposed if tensor in costly else _moved_constant
            free[tensor] = made(graph, tensor, perm)
    return [None if t is None else free.get(t, t) for t in node.inputs]


def _free(graph: Graph, tensor: Tensor, perm: Shape) -> Tensor | None:
    """Gives a tensor in the new layout if the graph has it already."""
    maker = graph.producer(tensor)
    if maker is not None and _leads_to_channels_first(maker) and perm_of(maker) == perm:
        return first_input(maker)
    if len(tensor.shape) <= len(perm) and all(n == 1 for n in tensor.shape):
        return _same_ones(tensor)
    return _transposed_already(graph, tensor, inverse(perm))


def _is_movable(tensor: Tensor, perm: Shape) -> bool:
    """Whether a constant can be stored in the new layout, its encoding too."""
    plain = isinstance(tensor.encoding, ScaleOffset | AxisScaleOffset | None)
    return is_fixed(tensor) and plain and len(tensor.shape) <= len(perm)


def _transposed(graph: Graph, tensor: Tensor, perm: Shape) -> Tensor:
    to_new = inverse(perm)
    made = add(graph, "Transpose", [tensor], name=f"{tensor.name}.last", perm=to_new)
    made.source, made.source_perm = tensor.source, source_perm_after(tensor, to_new)
    return made


def _same_ones(tensor: Tensor) -> Tensor | None:
    # all extents 1: every layout is the same one, unless scales are tied to an axis
    return tensor if isinstance(tensor.encoding, ScaleOffset | None) else None


def _moved_constant(graph: Graph, tensor: Tensor, perm: Shape) -> Tensor:
    """Gives a constant, which may have fewer dimensions, transposed to the new layout."""
    missing = len(perm) - len(tensor.shape)
    shape = (1,) * missing + tensor.shape
    encoding = tensor.encoding
    if isinstance(encoding, AxisScaleOffset):
        encoding = AxisScaleOffset(
            encoding.axis + missing, encoding.scales, encoding.offsets, encoding.bitwidth
        )
    to_new = inverse(perm)
    return static(
        graph,
        f"{tensor.name}.last",
        tensor.values().reshape(shape).transpose(to_new),
        tensor.dtype,
        encoding=None if encoding is None else encoding.transposed(to_new),
        source=tensor.source,
        source_perm=None if missing else source_perm_after(tensor, to_new),
    )


def _cancels_behind(graph: Graph, node: Node, back: Shape) -> bool:
    """Whether every reader of a node transposes straight back, so that nothing stays behind."""
    readers = [r for t in node.outputs for r in graph.consumers(t)]
    undone = all(is_op(r, "Transpose") and perm_of(r) == inverse(back) for r in readers)
    return bool(readers) and undone and all(map(is_inner, node.outputs))


def _moved_tensor(graph: Graph, old: Tensor, back: Shape, encoding: Encoding | None) -> Tensor:
    perm = inverse(back)
    return graph.add_tensor(
        Tensor(
            graph.fresh_name(f"{old.name}.last"),
            old.dtype,
            tuple(old.shape[p] for p in perm),
            encoding=encoding,
            source=old.source,
            source_perm=source_perm_after(old, perm),
        )
    )


def _transposed_encoding(encoding: Encoding | None, perm: Sequence[int]) -> Encoding | None:
    return None if encoding is None else encoding.transposed(tuple(perm))
