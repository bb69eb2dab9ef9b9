"""Finalization of a graph: checks, validation and preparation by the backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dovetail import ir
from dovetail.errors import GraphError, Problem, UnsupportedOpError, suggest_name
from dovetail.ir.check import find_faults
from dovetail.ops import CheckedGraph, NodeView, Observed
from dovetail.runtime.config import GraphConfig
from dovetail.runtime.contract import Prepared, PrepareRequest
from dovetail.runtime.measurements import ProfileEvent
from dovetail.runtime.plugin_errors import log_errors, translate_errors
from dovetail.runtime.signal import Signal, controlled

if TYPE_CHECKING:  # it imports graphs, which are prepared here
    from dovetail.runtime.context import Context


def checked_graph(
    graph: ir.Graph, views: Mapping[ir.Node, NodeView], observed: Observed
) -> CheckedGraph:
    """Return a graph whose nodes have been checked when they were added.

    Raises:
        GraphError: The graph is not well formed, or an observed tensor is unknown; every fault is
            listed.
    """
    faults = find_faults(graph)
    faults += [
        Problem(f"observed tensor '{name}' not found", hint=suggest_name(name, graph.tensors))
        for name in sorted(observed.names - graph.tensors.keys())
    ]
    if faults:
        where = f"graph '{graph.name}'"
        raise GraphError(f"{len(faults)} fault(s) found", where=where, problems=faults)
    return CheckedGraph.of(graph, views, observed)


def prepare_graph(
    graph: CheckedGraph,
    context: Context,
    config: GraphConfig,
    signal: Signal | None,
    record: Callable[[ProfileEvent], None] | None,
) -> Prepared:
    """Prepare a graph on its context's backend.

    Args:
        graph: The graph.
        context: Its context.
        config: Its settings.
        signal: As for `Graph.finalize`.
        record: Receives measurements of the preparation.

    Raises:
        BackendError: The backend failed, or the signal's timeout was exceeded.
        UnsupportedOpError: The backend does not support some nodes; all are listed.
    """
    _require_support(graph, context, config)
    with (
        controlled(signal) as control,
        translate_errors(context.backend.name, "`prepare` failed", "GRAPH_ERROR_FINALIZE_FAILED"),
    ):
        prepared = context.plugin.prepare(graph, PrepareRequest(config, control, record))
        try:
            control.check()
        except BaseException:
            close_prepared(prepared, graph.name)
            raise
    return prepared


def close_prepared(prepared: Prepared, name: str) -> None:
    """Close a prepared graph; its errors are logged.

    Args:
        prepared: The prepared graph.
        name: Name of the graph.
    """
    with log_errors(f"closing graph '{name}'"):
        prepared.close()


def _require_support(graph: CheckedGraph, context: Context, config: GraphConfig) -> None:
    backend, device = context.backend, context.device.config
    with translate_errors(backend.name, "`validate` failed", "GRAPH_ERROR_GENERAL"):
        verdicts = [(v.node, backend.plugin.validate(v, device, config)) for v in graph.nodes]
    unsupported = [Problem(str(v), node.where) for node, v in verdicts if not v.ok]
    if unsupported:
        raise UnsupportedOpError(
            f"backend '{backend.name}' does not support "
            f"{len(unsupported)} of {len(verdicts)} nodes",
            where=graph.where,
            problems=unsupported,
        )
