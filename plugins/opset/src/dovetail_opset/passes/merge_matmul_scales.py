"""Merging of the scales of both inputs of a MatMul into one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Graph, Node
from dovetail.ir.patterns import GraphView, find
from dovetail_opset._package import PACKAGE, nodes_of
from dovetail_opset.build import static
from dovetail_opset.passes._patterns import SCALED, Found, factor_of, is_closed
from dovetail_opset.passes._rewrite import merge_into_reader, sole_producer
from dovetail_opset.passes.dead_code import DeadCode

# A product of both, or its inverse, beyond a number that float16 holds may exceed a type.
_LEAST = 2.0**-14


@dataclass(frozen=True, slots=True)
class MergeMatmulScales:
    """Merge a factor of the second input of MatMul into one of the first.

    Attention multiplies both queries and transposed keys by the root of its scale. Then keys are
    read as they are, and their transpose may become a param of the MatMul.
    """

    name: str = "merge-matmul-scales"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in nodes_of(graph, "MatMul"):
            changed |= _merge(graph, node)
        if changed:
            DeadCode().run(graph)
        return changed


def _merge(graph: Graph, node: Node) -> bool:
    queries, keys = (sole_producer(graph, tensor) for tensor in node.inputs[:2])
    if queries is None or keys is None or queries is keys:
        return False
    first, second = _scale(graph, queries), _scale(graph, keys)
    if first is None or second is None or not is_closed(graph, [queries, keys, node], node):
        return False
    old = first.values.get("factor") or first.values["divisor"]
    factor = factor_of(first) * factor_of(second)
    if not _LEAST < abs(factor) < 1 / _LEAST:
        return False
    number = factor if "factor" in first.values else 1 / factor
    stored = np.full(old.shape, number, old.dtype.storage)
    constant = static(graph, f"{old.name}.{node.name}", stored, source=old.source)
    graph.replace_input(queries, old, constant)
    merge_into_reader(graph, keys, node, second.values["x"])
    return True


def _scale(graph: Graph, node: Node) -> Found | None:
    """Return the match of a product with a number that has the shape of the other factor."""
    match = next(find(SCALED, GraphView(graph, PACKAGE.name), node.outputs[0]), None)
    return match if match is not None and match.values["x"].spec == node.outputs[0].spec else None
