"""Replacement of ops that a param selects by the single ops of the same meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dovetail.ir import Graph, Node
from dovetail.ops import Op
from dovetail_opset._package import PACKAGE, nodes_of
from dovetail_opset._variants import Variants
from dovetail_opset.build import replace_op
from dovetail_opset.passes._rewrite import bound


@dataclass(frozen=True, slots=True)
class SingleOps:
    """Replace ElementWiseUnary, ElementWiseBinary and ElementWiseNeuron by single ops.

    RECIPROCAL and HARD_SIGMOID have no single op and stay.
    """

    name: str = "single-ops"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in nodes_of(graph, "ElementWiseUnary", "ElementWiseBinary", "ElementWiseNeuron"):
            changed |= _replace(graph, node)
        return changed


def _replace(graph: Graph, node: Node) -> bool:
    found = _single(bound(node))
    if found is None:
        return False
    op_type, params = found
    fields = PACKAGE.schemas[op_type].params
    stored = {name: fields[name].param_of(value, node.name) for name, value in params.items()}
    replace_op(graph, node, op_type, params=stored)
    return True


def _single(op: Op | None) -> tuple[str, dict[str, Any]] | None:
    """Return the op of the same meaning and its params; None if there is none."""
    if not isinstance(op, Variants):
        return None
    kind = type(op.single)
    schema = PACKAGE.schemas.get(kind.__name__)
    if schema is None or schema.op is not kind:
        return None
    # omitted params have the same meaning in both
    given = {n: value for n in schema.params if (value := getattr(op, n)) is not None}
    missing = any(f.is_required and n not in given for n, f in schema.params.items())
    # the single op rejects these
    return None if missing or given.get("beta") == 0 else (kind.__name__, given)
