"""Runs that show every tensor, and runs of single nodes: a side of `node_errors` on any backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import dovetail
from dovetail.api.preparation import Preparer
from dovetail.api.running import run_graph
from dovetail.container import Closing, Model, Producer
from dovetail.ir import Array, Graph, Node, Tensor, TensorKind, copy_graph, copy_tensor
from dovetail.ops import OpRegistry
from dovetail.runtime import Context

_NAME = "single node"  # of the graphs of nodes, before any graph has run


class NodeRuns(Closing):
    """Runs graphs and single nodes on a backend, on real values; a context manager.

    The graph or node that ran last stays prepared, so that further samples cost only their runs.

        with NodeRuns("cpu") as reference, NodeRuns("htp") as target:
            runs = [RunPair(reference.run(graph, x), target.run(graph, x)) for x in samples]
            for each in node_errors(graph, runs, target.run_node, verifier): ...

    Args:
        backend: Name of the backend.
        config: Path of a config file, or a mapping in the form of our TOML.
        options: Options of the backend; they replace those of the config.
        ops: The ops; by default those of all installed op packages.

    Raises:
        DovetailError: The config is wrong, or the backend cannot be created.
    """

    def __init__(
        self,
        backend: str = "cpu",
        config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        ops: OpRegistry | None = None,
    ) -> None:
        self._preparer = Preparer(backend, config, options, ops)
        self._source: Graph | Node | None = None
        self._context: Context | None = None
        self._name = _NAME

    def run(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the real values of all tensors of a run that are not static, by name.

        All inner tensors become outputs, so the backend fuses no nodes.

        Args:
            graph: The graph; not changed.
            inputs: Real values of its inputs, by name.

        Raises:
            DovetailError: The backend does not run the graph, or the run failed.
        """
        self._name = graph.name
        inner = [t.name for node in graph.nodes for t in node.outputs]
        return {**inputs, **self._run(graph, lambda: copy_graph(graph, outputs=inner), inputs)}

    def run_node(self, node: Node, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the real values of a node's outputs, by name.

        The node runs in a graph of the name of the last one that ran: it has the settings of that
        graph, and backends that warn once for each name do so once for all of its nodes.

        Args:
            node: The node; not changed.
            inputs: Real values of its inputs that are not static, by name.

        Raises:
            DovetailError: The backend does not run the node alone, or the run failed.
        """
        return self._run(node, lambda: _graph_of(node, self._name), inputs)

    def close(self) -> None:
        """Free everything; a second call does nothing."""
        self._preparer.backend.close()

    def _run(
        self, source: Graph | Node, create: Callable[[], Graph], inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        if self._source is not source or self._context is None:
            if self._context is not None:
                self._context.free()
            self._source = self._context = None
            producer = Producer("dovetail", dovetail.__version__)
            registry = self._preparer.backend.ops
            model = Model.of(create(), producer=producer, registry=registry)
            self._context = self._preparer.prepare([model])
            self._source = source
        (handle,) = self._context.graphs.values()
        return run_graph(handle, inputs)


def _graph_of(node: Node, name: str) -> Graph:
    """Return a graph of one node, with tensors of the same names."""
    graph = Graph(name)
    tensors: dict[str, Tensor] = {}
    for tensor, kind in [
        *((t, TensorKind.APP_WRITE) for t in node.inputs if t is not None),
        *((t, TensorKind.APP_READ) for t in node.outputs),
    ]:
        if tensor.name not in tensors:
            tensors[tensor.name] = graph.add_tensor(
                copy_tensor(tensor, None if tensor.kind.is_static else kind)
            )
    inputs = [None if t is None else tensors[t.name] for t in node.inputs]
    graph.add_node(node.with_tensors(inputs, [tensors[t.name] for t in node.outputs]))
    return graph
