"""Casts to bools after the gathers that read them."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import DType, Graph, Node, Spec, add_like
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.passes._rewrite import first_input, sole_producer

_GATHERS = ("Gather", "GatherElements", "GatherNd")
_MOVES = ("Reshape", "ExpandDims", "Squeeze", "Transpose")


@dataclass(frozen=True, slots=True)
class CastLast:
    """Gather the numbers that bools are cast from, and cast what was gathered.

    Most backends gather numbers and no bools: those of a transformer's mask of tokens. Between the
    cast and the gather may be reshapes and transposes.
    """

    name: str = "cast-last"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        found = list(nodes_of(graph, *_GATHERS))
        return any([_gather_numbers(graph, node) for node in found])


def _gather_numbers(graph: Graph, gather: Node) -> bool:
    if first_input(gather).dtype is not DType.BOOL_8:
        return False
    moves: list[Node] = []
    cast = sole_producer(graph, first_input(gather))
    while cast is not None and is_op(cast, *_MOVES):
        moves.append(cast)
        cast = sole_producer(graph, first_input(cast))
    if cast is None or not is_op(cast, "Cast"):
        return False
    x, bools, y = first_input(cast), cast.outputs[0], gather.outputs[0]
    if x.encoding is not None or x.dtype.bits > 32:
        return False
    graph.replace_uses(bools, x)
    for move in moves:
        move.outputs[0].dtype = x.dtype
    numbers = add_like(graph, y, f"{y.name}.numbers", Spec(x.dtype, y.shape))
    graph.set_outputs(gather, [numbers])
    graph.set_inputs(cast, [numbers])
    graph.set_outputs(cast, [y])
    graph.remove_tensor(bools)
    return True
