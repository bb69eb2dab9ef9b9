"""Recognition of a channel shuffle written as Reshape, Transpose, Reshape."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.ir import Graph, Shape
from dovetail_opset.build import add
from dovetail_opset.passes._exchanges import Exchange, fuse_exchanges


@dataclass(frozen=True, slots=True)
class FuseChannelShuffle:
    """Fuse a reshape to groups, their transpose and a reshape back to ChannelShuffle.

    It runs before channels-last, which moves transposes through a ChannelShuffle but not through a
    Reshape. The dimensions on either side of the channels may be reshaped too.
    """

    name: str = "fuse-channel-shuffle"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        return fuse_exchanges(graph, _fuse)


def _fuse(graph: Graph, found: Exchange) -> bool:
    position = _swapped(found.perm)
    axis = None if position is None else _axis(found, position)
    if position is None or axis is None:
        return False
    graph.remove_node(found.last)
    add(
        graph,
        "ChannelShuffle",
        [found.x],
        name=found.last.name,
        outputs=found.out,
        sources=found.sources,
        num_groups=found.parts[position],
        axis=axis,
    )
    return True


def _swapped(perm: Shape) -> int | None:
    """Return the index of a dimension that is swapped with the next, if nothing else moves."""
    moved = [i for i, p in enumerate(perm) if p != i]
    is_swap = len(moved) == 2 and moved[1] == moved[0] + 1
    return moved[0] if is_swap else None


def _axis(found: Exchange, position: int) -> int | None:
    """Return the axis of x that the groups divide, if the other axes are unchanged."""
    shape = found.x.shape
    parts = found.parts
    # one group, or groups of one, stay in order: other passes know a reshape by its own name
    if found.out.shape != shape or 0 in shape or 1 in parts[position : position + 2]:
        return None
    for axis, size in enumerate(shape):
        if size == parts[position] * parts[position + 1] and (
            math.prod(shape[:axis]) == math.prod(parts[:position])
        ):
            return axis
    return None
