"""Finalization of a graph: checks, validation and preparation by the backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import ir
from dovetail.errors import GraphError, Problem, UnsupportedOpError
from dovetail.ops import find_op_faults
from dovetail.runtime.contract import NodeView, Prepared
from dovetail.runtime.plugin_errors import translate_errors
from dovetail.runtime.signal import Signal, controlled

if TYPE_CHECKING:  # both import graphs, which are prepared here
    from dovetail.runtime.backend import Backend
    from dovetail.runtime.context import Context


def prepare_graph(graph: ir.Graph, context: Context, signal: Signal | None) -> Prepared:
    """Prepare a graph on its context's backend.

    Args:
        graph: Must not change afterwards.
        context: The graph's context.
        signal: As for `Graph.finalize`.

    Raises:
        BackendError: The backend failed, or the signal's timeout was exceeded.
        GraphError: The graph is not well formed; every fault is listed.
        UnsupportedOpError: The backend does not support some nodes; all are listed.
    """
    backend = context.backend
    if faults := find_op_faults(graph, backend.ops):
        raise GraphError(f"{len(faults)} fault(s) found", where=_where(graph), problems=faults)
    _require_support(graph, backend)
    with (
        controlled(signal) as control,
        translate_errors(backend.name, "`prepare` failed", "GRAPH_ERROR_FINALIZE_FAILED"),
    ):
        prepared = backend.plugin.prepare(graph, backend.options, context.weights)
        control.check()
    return prepared


def _require_support(graph: ir.Graph, backend: Backend) -> None:
    with translate_errors(backend.name, "`validate` failed", "GRAPH_ERROR_GENERAL"):
        verdicts = [
            (node, backend.plugin.validate(NodeView.of(node, backend.ops))) for node in graph.nodes
        ]
    unsupported = [Problem(str(v), node.where) for node, v in verdicts if not v.ok]
    if unsupported:
        raise UnsupportedOpError(
            f"backend '{backend.name}' does not support "
            f"{len(unsupported)} of {len(verdicts)} nodes",
            where=_where(graph),
            problems=unsupported,
        )


def _where(graph: ir.Graph) -> str:
    return f"graph '{graph.name}'"
