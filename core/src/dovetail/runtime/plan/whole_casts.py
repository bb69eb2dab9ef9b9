"""Casts of whole numbers to integers and back, which change nothing.

Models that quantize their activations when they run have one for each: a clipped, rounded quotient
becomes a byte, of which a float product takes the zero point away.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import Node, Tensor
from dovetail.ops import CheckedGraph, NodeView, OpSchema
from dovetail.runtime.plan.rewriting import Rewriting

_DEEPEST = 8  # maximum of nodes before a cast that are checked
_MOST_CONSTANTS = 4096  # maximum of elements of a constant that are checked


def without_whole_casts(graph: CheckedGraph, cast: OpSchema) -> CheckedGraph:
    """Return a graph whose nodes read whole floats instead of casting them to integers and back.

    NaN stays NaN.

    Args:
        graph: The graph; it is returned as it is if it has no such casts.
        cast: The op that converts numbers between types.
    """
    sources = {
        view.node: source
        for view in graph.nodes
        if view.schema is cast and (source := _source(graph, view, cast)) is not None
    }
    if not sources:
        return graph
    made, dropped = Rewriting(graph, cast), set(sources)
    dropped |= {
        node
        for back in sources
        if (node := _writer(graph, back)) is not None
        and graph.is_internal(node.outputs[0])
        and all(reader in sources for reader in graph.consumers(node.outputs[0]))
    }
    for view in graph.nodes:
        node = view.node
        if node in sources:
            made.replaced[node.outputs[0]] = sources[node]
        if node not in dropped:
            made.add(node, [made.current(t) for t in node.inputs], node.outputs, view)
    return made.result()


def _source(graph: CheckedGraph, view: NodeView, cast: OpSchema) -> Tensor | None:
    """Return the float tensor that a cast to float has the values of, or None."""
    before, (result,) = _writer(graph, view.node), view.node.outputs
    if before is None or graph.view(before).schema is not cast or not graph.is_internal(result):
        return None
    (source,), (between,) = before.inputs, before.outputs
    if source is None or source.spec != result.spec or not between.dtype.is_int:
        return None
    return source if _fits(graph, source, between) and _is_whole(graph, source) else None


def _writer(graph: CheckedGraph, node: Node) -> Node | None:
    tensor = node.inputs[0]
    return None if tensor is None else graph.producer(tensor)


def _fits(graph: CheckedGraph, tensor: Tensor, stored: Tensor) -> bool:
    """Return whether a node clips a tensor to what the type of another one holds."""
    node = graph.producer(tensor)
    if node is None or graph.view(node).is_opaque:
        return False
    _, op = graph.view(node).definition
    (low, high), (least, most) = op.value_range, stored.dtype.stored_range()
    return tensor.dtype.is_float and op.clips and least <= low and high <= most


def _is_whole(graph: CheckedGraph, tensor: Tensor, depth: int = 0) -> bool:
    """Return whether all values of a tensor are whole numbers, as far as ops state it."""
    if not (tensor.dtype.is_float or tensor.dtype.is_fixed_point):
        return True
    if tensor.data is not None and not tensor.kind.is_updateable and tensor.dtype.is_float:
        values = tensor.values() if np.prod(tensor.shape) <= _MOST_CONSTANTS else np.array([0.5])
        return bool((values == np.rint(values)).all())
    node = graph.producer(tensor)
    if node is None or depth == _DEEPEST or graph.view(node).is_opaque:
        return False
    schema, op = graph.view(node).definition
    inputs = [t for t in node.inputs if t is not None]
    return op.rounds or (
        schema.keeps_whole(op) and all(_is_whole(graph, t, depth + 1) for t in inputs)
    )
