"""Replacement of single ops by the ops of the same meaning that a param selects."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dovetail.ir import Graph, Node
from dovetail.ops import Op
from dovetail_opset._package import PACKAGE, is_op
from dovetail_opset.build import replace_op
from dovetail_opset.ops.activation import NEURONS
from dovetail_opset.ops.binary import BINARIES
from dovetail_opset.passes._rewrite import bound

# Single op -> the op that replaces it, and the operation.
_VARIANTS: dict[type[Op], tuple[str, enum.IntEnum]] = {
    **{kind: ("ElementWiseNeuron", operation) for operation, kind in NEURONS.items()},
    **{type(op): ("ElementWiseBinary", operation) for operation, op in BINARIES.items()},
}


@dataclass(frozen=True, slots=True)
class VariantOps:
    """Replace activations by ElementWiseNeuron, and functions of two tensors by ElementWiseBinary.

    So the SDK's converters write models since release 2.27. It runs on request only.
    """

    name: str = "variant-ops"
    phase: str = "late"
    after: str | None = None
    on_request: bool = True

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            op = bound(node)
            if op is not None and type(op) in _VARIANTS and is_op(node, type(op).__name__):
                changed |= _replace(graph, node, op)
        return changed


def _replace(graph: Graph, node: Node, op: Op) -> bool:
    op_type, operation = _VARIANTS[type(op)]
    fields = PACKAGE.schemas[op_type].params
    if not node.params.keys() <= fields.keys():
        return False  # the other op cannot express a param
    params = {"operation": fields["operation"].param_of(operation, node.name), **node.params}
    replace_op(graph, node, op_type, params=params)
    return True
