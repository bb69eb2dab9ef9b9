"""Preparation of a graph on a backend plugin, as core does it, for tests of the plugin's parts."""

from __future__ import annotations

from dovetail.container import WeightStore
from dovetail.ir import Graph
from dovetail.ops import NOTHING, Observed, OpRegistry, check_ops
from dovetail.runtime import contract


def open_context(
    backend: contract.Backend, weights: WeightStore | None = None
) -> contract.BackendContext:
    """Open a context with default settings.

    Args:
        backend: The plugin.
        weights: The context's store; by default a new one.
    """
    configs = backend.configs
    store = WeightStore() if weights is None else weights
    return backend.open_context(configs.device(), configs.context(), store)


def prepare(
    backend: contract.Backend,
    graph: Graph,
    ops: OpRegistry,
    *,
    weights: WeightStore | None = None,
    observed: Observed = NOTHING,
) -> contract.Prepared:
    """Prepare a graph in a new context with default settings.

    Args:
        backend: The plugin.
        graph: The graph.
        ops: The ops of its nodes.
        weights: As for `open_context`.
        observed: As for `CheckedGraph`.

    Raises:
        DovetailError: The graph has faults, or the backend failed.
    """
    checked = check_ops(graph, ops, observed)
    request = contract.PrepareRequest(backend.configs.graph())
    return open_context(backend, weights).prepare(checked, request)
