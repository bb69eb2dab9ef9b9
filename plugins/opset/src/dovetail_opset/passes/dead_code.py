"""Removal of everything that no output depends on."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, TensorKind
from dovetail_opset.passes._rewrite import is_inner

# The kinds of tensors that do not belong to the application.
_OWN = (TensorKind.NATIVE, TensorKind.STATIC, TensorKind.NULL)


@dataclass(frozen=True, slots=True)
class DeadCode:
    """Remove nodes whose results are not read, and tensors that no node uses.

    Inputs, outputs and UPDATEABLE tensors stay: they belong to the application.
    """

    name: str = "dead-code"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in reversed(graph.nodes):
            if not any(map(graph.is_read, node.outputs)) and all(map(is_inner, node.outputs)):
                graph.remove_node(node)
                changed = True
        for tensor in graph.unused():
            if tensor.kind in _OWN:
                graph.remove_tensor(tensor)
                changed = True
        return changed


@dataclass(frozen=True, slots=True)
class UnusedInputs:
    """Remove inputs that no node uses. It runs on request only."""

    name: str = "unused-inputs"
    phase: str = "late"
    after: str | None = None
    on_request: bool = True

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        found = [tensor for tensor in graph.unused() if tensor.kind is TensorKind.APP_WRITE]
        for tensor in found:
            graph.remove_tensor(tensor)
        return bool(found)
