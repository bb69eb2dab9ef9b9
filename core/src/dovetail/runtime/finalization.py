"""Finalization of a graph: checks, validation and preparation by the backend."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from dovetail import ir
from dovetail.errors import Problem, UnsupportedOpError, suggest_name
from dovetail.ir import DType
from dovetail.ir.check import find_faults, raise_faults
from dovetail.ops import CheckedGraph, NodeView, Observed
from dovetail.runtime.config import GraphConfig
from dovetail.runtime.contract import Prepared, PrepareRequest, RunControl, Support
from dovetail.runtime.measurements import Recorder
from dovetail.runtime.plugin_errors import log_errors, translate_errors
from dovetail.runtime.support import verdict

_INPUT = r"in\[(\d+)\]"
_WIDE = (DType.INT_64, DType.UINT_64)
_WIDE_NAMES = tuple(dtype.name for dtype in _WIDE)

if TYPE_CHECKING:  # it imports graphs, which are prepared here
    from dovetail.runtime.backend import Backend
    from dovetail.runtime.context import Context


def checked_graph(
    graph: ir.Graph,
    views: Mapping[ir.Node, NodeView],
    observed: Observed,
    outputs: Sequence[str],
) -> CheckedGraph:
    """Return a graph whose nodes have been checked when they were added.

    Args:
        graph: The graph.
        views: A view of every node.
        observed: Tensors to observe.
        outputs: Names of tensors that become outputs, besides the graph's.

    Raises:
        GraphError: The graph is not well formed, or a tensor to observe or to read is unknown;
            every fault is listed.
    """
    faults = find_faults(graph)
    computed = {t.name: t for t in graph.tensors.values() if graph.producer(t) is not None}
    faults += [
        Problem(f"computed tensor '{name}' not found", hint=suggest_name(name, computed))
        for name in outputs
        if name not in computed
    ]
    faults += [
        Problem(f"observed tensor '{name}' not found", hint=suggest_name(name, graph.tensors))
        for name in sorted(observed.names - graph.tensors.keys())
    ]
    raise_faults(graph, faults)
    return CheckedGraph.of(graph, views, observed, [computed[name] for name in outputs])


def prepare_graph(
    graph: CheckedGraph,
    context: Context,
    config: GraphConfig,
    control: RunControl,
    record: Recorder | None,
) -> Prepared:
    """Prepare a graph on its context's backend.

    Args:
        graph: The graph.
        context: Its context.
        config: Its settings.
        control: Can end the preparation.
        record: Receives measurements of the preparation.

    Raises:
        BackendError: The backend failed, or the control ended the preparation.
        UnsupportedOpError: The backend does not support some nodes; all are listed.
    """
    _require_support(graph, context, config)
    with translate_errors(context.backend.name, "`prepare` failed", "GRAPH_ERROR_FINALIZE_FAILED"):
        prepared = context.plugin.prepare(graph, PrepareRequest(config, control, record))
        try:
            control.check()
        except BaseException:
            close_prepared(prepared, graph.name)
            raise
    return prepared


def update_graph(
    graph: CheckedGraph,
    prepared: Prepared,
    updates: Collection[ir.Tensor],
    context: Context,
    config: GraphConfig,
    control: RunControl,
) -> None:
    """Update tensors of a prepared graph.

    Args:
        graph: The graph, with other data and encodings.
        prepared: The prepared graph.
        updates: The changed tensors.
        context: Its context.
        config: Its settings.
        control: Can end the update.

    Raises:
        BackendError: The backend failed, or the control ended the update.
        UnsupportedOpError: The backend does not support some nodes; all are listed.
    """
    _require_support(graph, context, config)
    with translate_errors(context.backend.name, "`update` failed", "GRAPH_ERROR_FINALIZE_FAILED"):
        prepared.update(tuple(updates))
        control.check()


def updated_views(
    graph: ir.Graph, updates: Collection[ir.Tensor], backend: Backend
) -> dict[ir.Node, NodeView]:
    """Return new views of the nodes that use changed tensors.

    Raises:
        GraphError: With other encodings, nodes do not match their ops; every reason is listed.
    """
    views, faults = dict[ir.Node, NodeView](), list[Problem]()
    for tensor in updates:
        producer = graph.producer(tensor)
        for node in (*graph.consumers(tensor), *([] if producer is None else [producer])):
            view, found = backend.checked(node)
            faults += found
            if view is not None:
                views[node] = view
    raise_faults(graph, faults)
    return views


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
        plugin, able = backend.plugin, backend.capabilities
        verdicts = [(v.node, verdict(plugin, able, v, device, config)) for v in graph.nodes]
    rejected = [(node, v) for node, v in verdicts if not v.ok]
    if rejected:
        raise UnsupportedOpError(
            f"backend '{backend.name}' does not support {len(rejected)} of {len(verdicts)} nodes",
            where=graph.where,
            problems=[
                Problem(str(v), node.where, _origin(graph, node, v.field)) for node, v in rejected
            ],
            hint=_hint(graph, [v for _, v in rejected], backend.name),
        )


def _hint(graph: CheckedGraph, verdicts: Sequence[Support], backend: str) -> str:
    """Return what to do about nodes that a backend rejects, besides the advice on each of them."""
    if any(each.found in _WIDE_NAMES for each in verdicts):
        wide = [f"--input-dtype {t.source} int32" for t in graph.inputs if t.dtype in _WIDE]
        if wide:
            whole = f"`--target-backend {backend}`, which computes all integers in 32 bits"
            flags = "with bool instead of int32 for masks of 0 and 1"
            return f"convert the model with {whole}, or with `{' '.join(wide)}`, {flags}"
        if any(t.dtype is DType.INT_32 for t in graph.inputs):
            return "convert the model with `--input-dtype NAME bool` for inputs of 0 and 1 alone"
    if backend == "cpu":
        return ""
    others = f"run these nodes on another backend: `--backend hetero:{backend},cpu`"
    if any(each.rule == "dtype" and _is_fixed_point(each.found) for each in verdicts):
        again = f"quantize the float model with `--target-backend {backend}`"
        return f"{again}, follow the advice on each node, or {others}"
    return f"follow the advice on each node, or {others}"


def _is_fixed_point(name: str) -> bool:
    return name in DType.__members__ and DType[name].is_fixed_point


def _origin(graph: CheckedGraph, node: ir.Node, field: str) -> str:
    """Return which node writes the input that a verdict's field names; empty if none does."""
    found = re.match(_INPUT, field)
    port = int(found[1]) if found is not None else len(node.inputs)
    tensor = node.inputs[port] if port < len(node.inputs) else None
    writer = None if tensor is None else graph.producer(tensor)
    return "" if writer is None else f"in[{port}] is written by {writer.where}"
