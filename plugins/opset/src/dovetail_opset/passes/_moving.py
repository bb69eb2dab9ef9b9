"""Tensors in another layout: lookup of existing ones and creation of new ones.

`perm` leads from the new layout back to the old one: `old = new.transpose(perm)`.
"""

from __future__ import annotations

from dovetail.ir import AxisScaleOffset, Encoding, Graph, Node, ScaleOffset, Shape, Tensor
from dovetail_opset._package import is_op
from dovetail_opset.build import add, static
from dovetail_opset.layouts import ONLY_FIRST_MOVES, rule_of
from dovetail_opset.passes._rewrite import (
    first_input,
    has_one_scale,
    is_constant,
    is_inner,
    keeps_stored_values,
    source_perm_after,
)
from dovetail_opset.perms import inverse, is_to_first, is_to_last, perm_of

# Ops of sequences, which have no layout with channels.
_OF_TOKENS = ("MatMul", "FullyConnected", "Gather", "GatherNd", "Lstm", "Gru")


def moved_inputs(graph: Graph, node: Node, perm: Shape, back: Shape) -> list[Tensor | None] | None:
    """Return a node's inputs in the new layout, or None if that would cost more."""
    moving = node.inputs[:1] if node.op_type in ONLY_FIRST_MOVES else node.inputs
    free = {t: _free(graph, t, perm) for t in moving if t is not None}
    costly = [t for t, new in free.items() if new is None and not _is_movable(t, perm)]
    if costly:
        # A transpose of one input pays if it removes those before and after the node.
        same_rank = all(len(t.shape) == len(perm) and not t.kind.is_updateable for t in costly)
        pays = len(costly) <= len(free) - len(costly) and _cancels_after(graph, node, back)
        if not (same_rank and pays):
            return None
    for tensor, new in free.items():
        if new is None:
            made = add_transposed if tensor in costly else _moved_constant
            free[tensor] = made(graph, tensor, perm)
    return [None if t is None else free.get(t, t) for t in node.inputs]


def _free(graph: Graph, tensor: Tensor, perm: Shape) -> Tensor | None:
    """Return a tensor in the new layout if the graph already has it."""
    maker = graph.producer(tensor)
    if maker is not None and turns_to_first(maker) and perm_of(maker) == perm:
        return first_input(maker)
    if len(tensor.shape) <= len(perm) and all(n == 1 for n in tensor.shape):
        return _same_ones(tensor)
    return transposed_already(graph, tensor, inverse(perm))


def _is_movable(tensor: Tensor, perm: Shape) -> bool:
    """Return whether a constant and its encoding can be stored in the new layout."""
    plain = isinstance(tensor.encoding, ScaleOffset | AxisScaleOffset | None)
    return is_constant(tensor) and plain and len(tensor.shape) <= len(perm)


def add_transposed(graph: Graph, tensor: Tensor, perm: Shape) -> Tensor:
    """Add a transpose of a tensor to the new layout and return the result."""
    to_new = inverse(perm)
    made = add(graph, "Transpose", [tensor], name=f"{tensor.name}.last", sources=(), perm=to_new)
    made.source, made.source_perm = tensor.source, source_perm_after(tensor, to_new)
    return made


def _same_ones(tensor: Tensor) -> Tensor | None:
    # all sizes are 1: every layout is the same, unless scales belong to an axis
    return tensor if has_one_scale(tensor) else None


def _moved_constant(graph: Graph, tensor: Tensor, perm: Shape) -> Tensor:
    """Return a constant, possibly of fewer dimensions, transposed to the new layout."""
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


def _cancels_after(graph: Graph, node: Node, back: Shape) -> bool:
    """Return whether every reader of a node transposes straight back."""
    readers = [r for t in node.outputs for r in graph.consumers(t)]
    undone = all(is_op(r, "Transpose") and perm_of(r) == inverse(back) for r in readers)
    return bool(readers) and undone and all(map(is_inner, node.outputs))


def moved_tensor(graph: Graph, old: Tensor, back: Shape, encoding: Encoding | None) -> Tensor:
    """Add a tensor with the values of `old` in the new layout."""
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


def transposed_already(graph: Graph, tensor: Tensor, perm: Shape) -> Tensor | None:
    """Return a tensor transposed by `perm`, if the graph already has it."""
    for reader in graph.consumers(tensor):
        if is_op(reader, "Transpose") and perm_of(reader) == perm and keeps_stored_values(reader):
            return reader.outputs[0]
    return None


def transposed_encoding(tensor: Tensor, perm: Shape) -> Encoding | None:
    """Return the encoding of a tensor transposed by `perm`.

    Raises:
        QuantizationError: Its blocks cannot be transposed.
    """
    return None if tensor.encoding is None else tensor.encoding.transposed(perm)


def turns_to_first(node: Node) -> bool:
    """Return whether a node is a transpose from channels-last to channels-first."""
    if not is_op(node, "Transpose") or not keeps_stored_values(node):
        return False
    return not first_input(node).kind.is_updateable and is_to_first(perm_of(node))


def leads_to_first(graph: Graph, node: Node) -> bool:
    """Return whether a node is a transpose that a frontend adds after a spatial op.

    Others, as in attention, have no counterpart to cancel with. Of three axes, (0, 2, 1) is also
    what turns a sequence of tokens: it counts only after a spatial op, or where that is not known.
    """
    x = first_input(node) if turns_to_first(node) else None
    return x is not None and (len(x.shape) > 3 or not _is_of_tokens(graph, x))


def _is_of_tokens(graph: Graph, tensor: Tensor) -> bool:
    """Return whether a value was computed by a product or a look-up since the last spatial op."""
    while (maker := graph.producer(tensor)) is not None:
        if is_op(maker, *_OF_TOKENS):
            return True
        if not is_op(maker, "Reshape") and rule_of(maker) is None:
            return False
        computed = [t for t in maker.inputs if t is not None and not t.kind.is_static]
        tensor = computed[0] if computed else first_input(maker)
    return False


def is_before_spatial(graph: Graph, node: Node) -> bool:
    """Return whether a node is a transpose that a frontend adds before a spatial op."""
    if not is_op(node, "Transpose") or not is_to_last(perm_of(node)):
        return False
    if len(first_input(node).shape) > 3:
        return True
    readers = list(graph.consumers(node.outputs[0]))
    # one dimension of space becomes two
    readers += [r for n in readers if is_op(n, "Reshape") for r in graph.consumers(n.outputs[0])]
    others = ("Reshape", "Transpose", *_OF_TOKENS)
    return any(rule_of(r) is None and not is_op(r, *others) for r in readers)
