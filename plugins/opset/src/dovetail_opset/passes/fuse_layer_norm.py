"""Recognises layer normalization that is written out in small ops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Graph, Node, Shape, Tensor
from dovetail.ops import bind_node
from dovetail_opset._shapes import ints
from dovetail_opset.build import add, static
from dovetail_opset.ops.reduction import ReduceMean
from dovetail_opset.passes._rewrite import (
    first_input,
    is_fixed,
    is_float,
    is_inner,
    is_op,
    merge,
    only_reader,
    schema_of,
)
from dovetail_opset.passes.dead_code import DeadCode


@dataclass(frozen=True, slots=True)
class Match:
    """What a written-out normalization says."""

    x: Tensor
    axes: Shape
    epsilon: float
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class FuseLayerNorm:
    """Makes LayerNorm of (x - mean) / sqrt(mean of squares + epsilon), times gamma, plus beta.

    gamma and beta are constants over the axes; either may be missing.
    """

    name: str = "fuse-layer-norm"

    def run(self, graph: Graph) -> bool:
        """Rewrites the graph in place; gives whether it changed anything."""
        changed = False
        for node in graph.nodes:
            if is_op(node, "ElementWiseDivide") and (match := _matched(graph, node)) is not None:
                changed |= _fuse(graph, node, match)
        if changed:
            DeadCode().run(graph)
        return changed


def _matched(graph: Graph, division: Node) -> Match | None:
    centred, spread = division.inputs
    subtract = _maker(graph, centred, "ElementWiseSubtract")
    root = _maker(graph, spread, "ElementWiseSquareRoot")
    plus = _maker(graph, root.inputs[0], "ElementWiseAdd") if root else None
    if centred is None or subtract is None or root is None or plus is None:
        return None
    variance, epsilon = plus.inputs if not is_fixed(plus.inputs[0]) else plus.inputs[::-1]
    mean_of_squares = _maker(graph, variance, "ReduceMean")
    mean = _maker(graph, subtract.inputs[1], "ReduceMean")
    if mean_of_squares is None or mean is None or mean.inputs[0] is not subtract.inputs[0]:
        return None
    square = graph.producer(first_input(mean_of_squares))
    axes = _mean_axes(mean)
    if square is None or axes is None or axes != _mean_axes(mean_of_squares):
        return None
    value = _one_number(epsilon)
    if value is None or not _squares(square, centred):
        return None
    nodes = (mean, subtract, square, mean_of_squares, plus, root, division)
    return Match(first_input(subtract), axes, value, nodes)


def _maker(graph: Graph, tensor: Tensor | None, op_type: str) -> Node | None:
    node = None if tensor is None else graph.producer(tensor)
    return node if is_op(node, op_type) else None


def _mean_axes(node: Node) -> Shape | None:
    schema = schema_of(node)
    op = None if schema is None else bind_node(schema, node)
    if not isinstance(op, ReduceMean) or not op.keep_dims:
        return None
    return tuple(sorted(ints(op.axes)))


def _squares(node: Node, x: Tensor) -> bool:
    if is_op(node, "ElementWisePower"):
        return node.inputs[0] is x and _one_number(node.inputs[1]) == 2
    return is_op(node, "ElementWiseMultiply") and node.inputs == (x, x)


def _one_number(tensor: Tensor | None) -> float | None:
    if tensor is None or not is_fixed(tensor) or not is_float(tensor):
        return None
    values = tensor.values()
    return float(values.reshape(-1)[0]) if values.size == 1 else None


def _fuse(graph: Graph, division: Node, match: Match) -> bool:
    inside = set(match.nodes)
    for node in match.nodes[:-1]:  # nobody else may need what disappears
        if not is_inner(node.outputs[0]) or not inside.issuperset(graph.consumers(node.outputs[0])):
            return False
    # an epsilon of a higher rank than x would give the result one more dimension
    if not is_float(match.x) or division.outputs[0].spec != match.x.spec:
        return False
    graph.remove_node(division)
    target = add(
        graph,
        "LayerNorm",
        [match.x],
        name=division.name,
        outputs=division.outputs[0],
        sources=dict.fromkeys(s for n in match.nodes for s in n.sources),
        axes=match.axes,
        epsilon=match.epsilon,
    )
    norm = graph.producer(target)
    if norm is not None:
        _absorb(graph, norm, match, "ElementWiseMultiply", 1)
        _absorb(graph, norm, match, "ElementWiseAdd", 2)
    return True


def _absorb(graph: Graph, norm: Node, match: Match, op_type: str, port: int) -> None:
    """Makes a constant that the result is multiplied with, or that is added, an input of `norm`."""
    result = norm.outputs[0]
    reader = only_reader(graph, result)
    if reader is None or not is_op(reader, op_type) or reader.outputs[0].spec != result.spec:
        return
    others = [t for t in reader.inputs if t is not result]
    values = _over_axes(others[0], match) if len(others) == 1 else None
    if values is None or others[0] is None:
        return
    constant = static(graph, f"{others[0].name}.{norm.name}", values, source=others[0].source)
    inputs = [*norm.inputs, None, None][:port]
    graph.set_inputs(norm, [*inputs, constant])
    merge(graph, norm, reader)


def _over_axes(tensor: Tensor | None, match: Match) -> Array | None:
    """Gives a constant with the extents of x at the axes; None if it also varies elsewhere."""
    shape = match.x.shape
    if tensor is None or not is_fixed(tensor) or tensor.dtype is not match.x.dtype:
        return None
    values = tensor.values()
    aligned = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    if any(n != 1 for i, n in enumerate(aligned.shape) if i not in match.axes):
        return None
    wanted = [shape[i] if i in match.axes else 1 for i in range(len(shape))]
    return np.broadcast_to(aligned, wanted).reshape([shape[a] for a in match.axes])
