"""Gathers of known neighbors as slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Graph, Node
from dovetail_opset._package import nodes_of
from dovetail_opset.build import add
from dovetail_opset.passes._rewrite import bound, first_input, is_constant, share_one_scale


@dataclass(frozen=True, slots=True)
class SliceGathers:
    """Replace a Gather by a StridedSlice where its constant indices are one, or in equal steps.

    As a slice, it is moved through layouts, and is a view or one copy: the token of a class, the
    last state of a recurrent layer, every second channel.
    """

    name: str = "slice-gathers"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        found = list(nodes_of(graph, "Gather"))
        return any([_slice(graph, node) for node in found])


def _slice(graph: Graph, node: Node) -> bool:
    op: Any = bound(node)
    x, indices, y = first_input(node), node.inputs[1], node.outputs[0]
    if op is None or indices is None or not is_constant(indices) or len(indices.shape) > 1:
        return False
    if not share_one_scale(x, y):
        return False
    axis = int(op.axis)
    row = _row(indices.values().astype(np.int64).reshape(-1), x.shape[axis])
    if row is None:
        return False
    ranges = [(0, size, 1) for size in x.shape]
    ranges[axis] = row
    graph.remove_node(node)
    add(
        graph,
        "StridedSlice",
        [x],
        name=node.name,
        outputs=y,
        sources=node.sources,
        ranges=ranges,
        shrink_axes=0 if indices.shape else 1 << axis,
    )
    return True


def _row(indices: np.ndarray, size: int) -> tuple[int, int, int] | None:
    """Return begin, end and stride of a slice with these elements; None if there is none."""
    if not indices.size or indices.min() < -size or indices.max() >= size:
        return None
    indices = np.where(indices < 0, indices + size, indices)
    steps = np.diff(indices)
    step = int(steps[0]) if steps.size else 1
    if step < 1 or (steps != step).any():
        return None
    return int(indices[0]), int(indices[-1]) + 1, step
