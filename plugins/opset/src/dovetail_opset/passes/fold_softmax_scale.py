"""Folding of a scale before a softmax into `beta`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.ir import Graph, Node
from dovetail.ir.patterns import GraphView, find
from dovetail_opset._package import PACKAGE, nodes_of, schema_of
from dovetail_opset.ops.softmax import LogSoftmax, Softmax
from dovetail_opset.passes._patterns import SCALED, factor_of, is_closed
from dovetail_opset.passes._rewrite import bound, merge_into_reader, sole_producer


@dataclass(frozen=True, slots=True)
class FoldSoftmaxScale:
    """Fold a positive factor of the input of Softmax or LogSoftmax into `beta`.

    A division by a number counts too. A scale with an addition between it and the softmax, such as
    the mask of attention, stays: beta would scale the mask.
    """

    name: str = "fold-softmax-scale"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in nodes_of(graph, "Softmax", "LogSoftmax"):
            changed |= _fold(graph, node)
        return changed


def _fold(graph: Graph, node: Node) -> bool:
    schema, softmax = schema_of(node), bound(node)
    scale = sole_producer(graph, node.inputs[0])
    if schema is None or scale is None or not isinstance(softmax, Softmax | LogSoftmax):
        return False
    match = next(find(SCALED, GraphView(graph, PACKAGE.name), scale.outputs[0]), None)
    if match is None or not is_closed(graph, [scale, node], node):
        return False
    x, beta = match.values["x"], softmax.beta * factor_of(match)
    # a number of a higher rank than x would give the result one more dimension
    if x.spec != scale.outputs[0].spec or not (factor_of(match) > 0 and math.isfinite(beta)):
        return False
    node.params["beta"] = schema.params["beta"].param_of(beta, node.name)
    merge_into_reader(graph, scale, node, x)
    return True
