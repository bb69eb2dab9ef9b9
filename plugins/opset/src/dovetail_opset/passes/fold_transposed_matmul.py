"""Folding of transposes before a MatMul into its params."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, Node, Shape, Tensor
from dovetail_opset._package import is_op, schema_of
from dovetail_opset.ops.matrix import MatMul
from dovetail_opset.passes._rewrite import bound, first_input, keeps_stored_values
from dovetail_opset.passes.dead_code import DeadCode
from dovetail_opset.perms import perm_of


@dataclass(frozen=True, slots=True)
class FoldTransposedMatmul:
    """Fold a Transpose of the last two axes into transpose_in0 or transpose_in1.

    A Transpose that moves other axes too, such as one that moves heads to the front, copies anyway
    and stays.
    """

    name: str = "fold-transposed-matmul"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            schema = schema_of(node)
            if schema is not None and schema.op is MatMul:
                changed |= any([_fold(graph, node, side) for side in (0, 1)])
        if changed:
            DeadCode().run(graph)
        return changed


def _fold(graph: Graph, node: Node, side: int) -> bool:
    source, schema = _swapped(graph, node.inputs[side]), schema_of(node)
    op = bound(node)
    if source is None or schema is None or not isinstance(op, MatMul):
        return False
    name, was = (
        ("transpose_in0", op.transpose_in0),
        ("transpose_in1", op.transpose_in1),
    )[side]
    node.params[name] = schema.params[name].param_of(not was, node.name)
    graph.set_inputs(node, [source if i == side else t for i, t in enumerate(node.inputs)])
    return True


def _swapped(graph: Graph, tensor: Tensor | None) -> Tensor | None:
    """Return the tensor before a transpose of exactly the last two axes, else None."""
    transpose = None if tensor is None else graph.producer(tensor)
    if transpose is None or not is_op(transpose, "Transpose") or not keeps_stored_values(transpose):
        return None
    source, perm = first_input(transpose), perm_of(transpose)
    if source.kind.is_updateable or perm != _swap(len(perm)):
        return None
    return source


def _swap(rank: int) -> Shape:
    return (*range(rank - 2), rank - 1, rank - 2) if rank > 1 else ()
