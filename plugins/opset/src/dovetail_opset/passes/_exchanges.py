"""The pattern Reshape, Transpose, Reshape, in which models express ops on groups and blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dovetail.ir import Graph, Node, Shape, Tensor
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.passes._rewrite import first_input, share_one_scale, sole_producer, sources_of
from dovetail_opset.passes.dead_code import DeadCode
from dovetail_opset.perms import perm_of


@dataclass(frozen=True, slots=True)
class Exchange:
    """A tensor that is reshaped, transposed and reshaped again.

    Attributes:
        x: The tensor.
        parts: Its shape after the first reshape.
        perm: The transpose.
        last: The node of the last reshape, the only writer of the result.
        sources: Names of the nodes of the user's model that the three represent.
    """

    x: Tensor
    parts: Shape
    perm: Shape
    last: Node
    sources: Iterable[str]

    @property
    def out(self) -> Tensor:
        """The result."""
        return self.last.outputs[0]


def fuse_exchanges(graph: Graph, fuse: Callable[[Graph, Exchange], bool]) -> bool:
    """Call a function that may replace the last node of each exchange; remove dead nodes.

    Args:
        graph: Rewritten in place.
        fuse: Returns whether it replaced the node.

    Returns:
        Whether the function replaced any.
    """
    changed = False
    for node in nodes_of(graph, "Reshape"):
        if (found := _exchange(graph, node)) is not None:
            changed |= fuse(graph, found)
    if changed:
        DeadCode().run(graph)
    return changed


def _exchange(graph: Graph, last: Node) -> Exchange | None:
    transpose = sole_producer(graph, first_input(last))
    if transpose is None or not is_op(transpose, "Transpose"):
        return None
    first = sole_producer(graph, first_input(transpose))
    if first is None or not is_op(first, "Reshape"):
        return None
    x, parts = first_input(first), first.outputs[0]
    after = (parts, *transpose.outputs, *last.outputs)
    if not share_one_scale(x, *after):
        return None
    sources = sources_of((first, transpose, last))
    return Exchange(x, parts.shape, perm_of(transpose), last, sources)
