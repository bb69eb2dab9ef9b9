"""Removal of tests for NaN where there is none: in integers and fixed-point numbers."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, Node, Tensor
from dovetail.ops import Domain
from dovetail_opset._package import is_op, nodes_of, schema_of
from dovetail_opset.passes._rewrite import first_input, is_inner


@dataclass(frozen=True, slots=True)
class DropNanTests:
    """Remove selections between a tensor and what replaces its NaN, if it can have none.

    Exporters write them after the Softmax of an attention, for rows that a mask hides. The test is
    IsNan, or the comparison of a tensor with itself.
    """

    name: str = "drop-nan-tests"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in nodes_of(graph, "ElementWiseSelect"):
            changed |= _drop(graph, node)
        return changed


def _drop(graph: Graph, node: Node) -> bool:
    (condition, _, kept), (out,) = node.inputs, node.outputs
    test = None if condition is None else graph.producer(condition)
    if condition is None or kept is None or not _is_never(test):
        return False
    if kept.kind.is_updateable or not is_inner(out) or not _can_replace(graph, out, kept):
        return False
    graph.replace_uses(out, kept)
    graph.remove_node(node)
    graph.remove_tensor(out)
    if test is not None and is_inner(condition) and not graph.consumers(condition):
        graph.remove_node(test)
        graph.remove_tensor(condition)
    return True


def _can_replace(graph: Graph, out: Tensor, kept: Tensor) -> bool:
    """Return whether the readers of a selection may read what it keeps, perhaps on another grid."""
    if (out.dtype, out.shape) != (kept.dtype, kept.shape):
        return False
    schemas = [schema_of(node) for node in graph.consumers(out)]
    compute = all(s is not None and s.domain is not Domain.MOVE for s in schemas)
    return out.encoding == kept.encoding or (out.dtype.is_fixed_point and compute)


def _is_never(test: Node | None) -> bool:
    """Return whether a node looks for NaN where there is none."""
    if not is_op(test, "IsNan", "ElementWiseNotEqual") or test is None:
        return False
    return not first_input(test).dtype.is_float and len(set(test.inputs)) == 1
