"""Recognition of layer normalization written in small ops."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, Node, Shape, Tensor
from dovetail_opset._package import is_op
from dovetail_opset.build import add
from dovetail_opset.passes._patterns import (
    absorb_over_axes,
    is_closed,
    is_square,
    maker,
    mean_axes,
    one_number,
)
from dovetail_opset.passes._rewrite import first_input, is_constant, is_float
from dovetail_opset.passes.dead_code import DeadCode


@dataclass(frozen=True, slots=True)
class Match:
    """The parts of a recognized normalization."""

    x: Tensor
    axes: Shape
    epsilon: float
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class FuseLayerNorm:
    """Fuse (x - mean) / sqrt(mean of squares + epsilon) * gamma + beta to LayerNorm.

    gamma and beta are constants over the axes; either may be missing.
    """

    name: str = "fuse-layer-norm"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            if is_op(node, "ElementWiseDivide") and (match := _matched(graph, node)) is not None:
                changed |= _fuse(graph, node, match)
        if changed:
            DeadCode().run(graph)
        return changed


def _matched(graph: Graph, division: Node) -> Match | None:
    centred, spread = division.inputs
    subtract = maker(graph, centred, "ElementWiseSubtract")
    root = maker(graph, spread, "ElementWiseSquareRoot")
    plus = maker(graph, root.inputs[0], "ElementWiseAdd") if root else None
    if centred is None or subtract is None or root is None or plus is None:
        return None
    variance, epsilon = plus.inputs if not is_constant(plus.inputs[0]) else plus.inputs[::-1]
    mean_of_squares = maker(graph, variance, "ReduceMean")
    mean = maker(graph, subtract.inputs[1], "ReduceMean")
    if mean_of_squares is None or mean is None or mean.inputs[0] is not subtract.inputs[0]:
        return None
    square = graph.producer(first_input(mean_of_squares))
    axes = mean_axes(mean)
    if square is None or axes is None or axes != mean_axes(mean_of_squares):
        return None
    value = one_number(epsilon)
    if value is None or not is_square(square, centred):
        return None
    nodes = (mean, subtract, square, mean_of_squares, plus, root, division)
    return Match(first_input(subtract), axes, value, nodes)


def _fuse(graph: Graph, division: Node, match: Match) -> bool:
    if not is_closed(graph, match.nodes, division):
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
        absorb_over_axes(graph, norm, match.axes, "ElementWiseMultiply", 1)
        absorb_over_axes(graph, norm, match.axes, "ElementWiseAdd", 2)
    return True
