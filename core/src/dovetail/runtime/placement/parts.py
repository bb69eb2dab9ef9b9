"""Parts as graphs of their own, and the values that pass from part to part."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from dovetail.container import aligned_empty
from dovetail.ir import Array, Node, Tensor
from dovetail.ops import CheckedGraph
from dovetail.runtime.interface import Endpoint, Interface


def part_graphs(
    graph: CheckedGraph, names: Sequence[str], parts: Sequence[Collection[Node]]
) -> list[CheckedGraph]:
    """Return the parts of a graph; the graph itself if there is one part.

    Inputs and outputs of the graph that no node uses belong to the first part.

    Args:
        graph: The graph.
        names: Names of the parts.
        parts: The nodes of each part, in the order in which they run; together all nodes.
    """
    if len(parts) == 1:
        return [graph]
    home = {node: p for p, nodes in enumerate(parts) for node in nodes}
    inputs: list[dict[Tensor, None]] = [{} for _ in parts]
    outputs: list[dict[Tensor, None]] = [{} for _ in parts]
    for tensor in graph.inputs:
        readers = {home[node] for node in graph.consumers(tensor)}
        for p in readers or {0}:
            inputs[p][tensor] = None
    for view in graph.nodes:
        for tensor in view.node.outputs:
            own, readers = home[view.node], {home[node] for node in graph.consumers(tensor)}
            for p in readers - {own}:
                inputs[p][tensor] = None
            if readers - {own} and not graph.is_output(tensor):
                outputs[own][tensor] = None
    for tensor in graph.outputs:
        producer = graph.producer(tensor)
        outputs[0 if producer is None else home[producer]][tensor] = None
    return [
        graph.part(name, nodes, tuple(given), tuple(taken))
        for name, nodes, given, taken in zip(names, parts, inputs, outputs, strict=True)
    ]


def seams(interface: Interface, parts: Sequence[Interface]) -> dict[str, Array]:
    """Return a buffer for each value that passes from part to part and is not an output.

    Args:
        interface: The inputs and outputs of the graph.
        parts: Those of its parts.
    """
    return {
        name: _buffer(end)
        for part in parts
        for name, end in part.outputs.items()
        if name not in interface.outputs
    }


def _buffer(end: Endpoint) -> Array:
    nbytes = math.prod(end.shape) * end.storage.itemsize
    return aligned_empty(nbytes).view(end.storage).reshape(end.shape)
