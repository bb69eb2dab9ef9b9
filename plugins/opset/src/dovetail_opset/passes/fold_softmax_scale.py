"""Folding of a scale before a softmax into `beta`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.ir import Graph, Node
from dovetail.ops import bind_node
from dovetail_opset._package import is_op, schema_of
from dovetail_opset.ops.softmax import LogSoftmax, Softmax
from dovetail_opset.passes._patterns import factor_of, is_closed
from dovetail_opset.passes._rewrite import merge_into_reader, sole_producer


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
        for node in graph.nodes:
            if is_op(node, "Softmax", "LogSoftmax"):
                changed |= _fold(graph, node)
        return changed


def _fold(graph: Graph, node: Node) -> bool:
    schema = schema_of(node)
    op = None if schema is None else bind_node(schema, node)
    if schema is None or not isinstance(op, Softmax | LogSoftmax):
        return False
    scale = sole_producer(graph, node.inputs[0])
    factor = factor_of(scale)
    if scale is None or factor is None or not is_closed(graph, [scale, node], node):
        return False
    x, number = factor
    beta = op.beta * number
    # a number of a higher rank than x would give the result one more dimension
    if x.spec != scale.outputs[0].spec or not (number > 0 and math.isfinite(beta)):
        return False
    node.params["beta"] = schema.params["beta"].param_of(beta, node.name)
    merge_into_reader(graph, scale, node, x)
    return True
