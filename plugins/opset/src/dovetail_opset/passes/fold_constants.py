"""Computation of constants at conversion."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import DType, Graph, Node, TensorKind, pack
from dovetail.ops import OpSchema, bind_node, input_specs, simulate
from dovetail_opset._package import schema_of
from dovetail_opset.passes._rewrite import is_constant, is_inner

# Values whose stored form is not what `simulate` computes with.
_UNCOMPUTED = (DType.BFLOAT_16, DType.STRING)
# A weight kept in few bits stays so: its encoding is information, and folding would lose it.
_KEPT = ("Dequantize", "Convert")


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Replace nodes that read only STATIC tensors by their results, also STATIC.

    Attributes:
        max_growth_bytes: Maximum growth of a result over its inputs together; a larger result is
            cheaper computed than stored.
    """

    max_growth_bytes: int = 1 << 20
    name: str = "fold-constants"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            schema = schema_of(node) if self._may_fold(node) else None
            if schema is not None and schema.op.is_pure:
                _fold(graph, node, schema)
                changed = True
        return changed

    def _may_fold(self, node: Node) -> bool:
        read = [t for t in node.inputs if t is not None and t.kind is not TensorKind.NULL]
        if not read or not all(map(is_constant, read)) or node.op_type in _KEPT:
            return False
        if not all(map(is_inner, node.outputs)):
            return False
        if any(t.dtype in _UNCOMPUTED for t in (*read, *node.outputs)):
            return False
        made = sum(t.spec.nbytes for t in node.outputs)
        return made <= sum(t.spec.nbytes for t in read) + self.max_growth_bytes


def _fold(graph: Graph, node: Node, schema: OpSchema) -> None:
    ins = [None if t is None or t.data is None else t.values() for t in node.inputs]
    outs = [t.spec for t in node.outputs]
    results = simulate(schema, bind_node(schema, node), ins, input_specs(node), outs)
    graph.remove_node(node)
    for tensor, values in zip(node.outputs, results, strict=True):
        tensor.kind = TensorKind.STATIC
        tensor.data = pack(values, tensor.dtype)
