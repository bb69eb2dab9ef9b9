"""Graphs of context binaries: their parts in the file, and loading when they are first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dovetail import ir
from dovetail.container import ContextFile
from dovetail.errors import BackendError, ConfigError, ContainerError, Problem
from dovetail.ir.check import find_faults
from dovetail.ops import CheckedGraph, NodeView, Observed, require_known
from dovetail.runtime.config import GraphConfig, typed_config
from dovetail.runtime.contract import (
    Image,
    Prepared,
    PrepareRequest,
    Restored,
    RunControl,
)
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import Recorder
from dovetail.runtime.plugin_errors import log_errors, translate_errors
from dovetail.runtime.revisions import Revision

if TYPE_CHECKING:  # a context has graphs of binaries
    from dovetail.runtime.context import Context


class StoredGraph:
    """A graph in a context binary.

    Args:
        file: The binary.
        name: Name of the graph.
        context: The context that it is loaded into.

    Attributes:
        file: The binary.
        name: Name of the graph.
        entry: Its entry in the manifest.
        config: Its settings when it was prepared.
        interface: All its inputs and outputs, those that are context tensors too.
        revision: How its updateable tensors differ from those in the binary.

    Raises:
        ContainerError: The entry is damaged, or has settings that the backend does not have.
    """

    def __init__(self, file: ContextFile, name: str, context: Context) -> None:
        self.file = file
        self.name = name
        self.entry = file.graphs[name]
        self._context = context
        self.config = self._stored_config()
        self.interface = Interface.of(name, *file.interface(name))
        self.revision = Revision()
        self._graph: ir.Graph | None = None
        self._views: Mapping[ir.Node, NodeView] | None = None
        self._checked: CheckedGraph | None = None

    @property
    def has_model(self) -> bool:
        """True if the binary has the graph itself, too."""
        return self.entry.model is not None

    def shared_names(self, known: Mapping[str, ir.Tensor]) -> tuple[str, ...]:
        """Return the names of the context tensors that it uses.

        Args:
            known: The context tensors of the binary by name.

        Raises:
            ContainerError: The binary does not have one of them, or it does not match the input or
                output for which it is used; all are listed.
        """
        faults = []
        ends = {**self.interface.inputs, **self.interface.outputs}
        for name in self.entry.shared:
            tensor, end = known.get(name), ends.get(name)
            if tensor is None:
                faults.append(Problem(f"context tensor '{name}' not found"))
            elif not tensor.kind.is_static and (end is None or end.tensor.spec != tensor.spec):
                faults.append(Problem(f"context tensor '{name}' does not match the graph"))
        if len(set(self.entry.shared)) < len(self.entry.shared):
            faults.append(Problem("a context tensor is used twice"))
        if faults:
            raise self.invalid("the context tensors do not match the graph", faults)
        return self.entry.shared

    @cached_property
    def updateable(self) -> Mapping[str, ir.Tensor]:
        """Its updateable tensors by name, without data; none if the binary lacks the graph.

        Raises:
            ContainerError: The graph is damaged.
        """
        tensors = self._graph.tensors.values() if self._graph else self.file.tensors_of(self.name)
        return {tensor.name: tensor for tensor in tensors if tensor.kind.is_updateable}

    def _stored_config(self) -> GraphConfig:
        backend = self._context.backend
        found: GraphConfig
        try:
            found = typed_config(self.entry.config, backend.plugin.configs.graph, "config")
        except ConfigError as error:
            faults = error.as_problems()
            message = f"backend '{backend.name}' does not have the settings"
            raise self.invalid(message, faults) from error
        return found

    def invalid(self, message: str, faults: Sequence[Problem] = ()) -> ContainerError:
        """Return the error of the graph's part of the file."""
        return ContainerError(
            message,
            code="CONTAINER_INVALID",
            where=f"{self.file.where}: graph '{self.name}'",
            problems=faults,
        )

    @property
    def loaded_graph(self) -> ir.Graph | None:
        """The graph itself if it has been loaded."""
        return self._graph

    def graph(self) -> ir.Graph:
        """Return the graph itself, always the same.

        Raises:
            BackendError: The binary does not have it.
            ContainerError: It is damaged.
        """
        if self._graph is None:
            self._graph = self.file.model(self.name)
            if self._graph is not None:
                self.revision.load(self._graph)
        if self._graph is None:
            raise BackendError(
                "the context binary has no model of the graph, which this call needs",
                code="CONTEXT_ERROR_UNSUPPORTED_FEATURE",
                where=f"graph '{self.name}'",
                hint="create the binary with `embed_model` (--embed-model)",
            )
        return self._graph

    def views(self) -> Mapping[ir.Node, NodeView]:
        """Return views of the graph's nodes.

        Raises:
            UnsupportedOpError: The graph uses unknown ops; all are listed.
            ContainerError: The graph is not well formed, or nodes do not match their ops; every
                reason is listed.
        """
        if self._views is None:
            graph, backend = self.graph(), self._context.backend
            if faults := find_faults(graph):
                raise self.invalid("the model is not well formed", faults)
            known = [node for node in graph.nodes if not backend.is_opaque(node)]
            require_known(known, backend.ops, f"graph '{self.name}'")
            found = [(node, *backend.checked(node)) for node in graph.nodes]
            if faults := [fault for _, _, own in found for fault in own]:
                raise self.invalid("nodes of the model do not match their ops", faults)
            self._views = {node: view for node, view, _ in found if view is not None}
        return self._views

    def checked(self) -> CheckedGraph:
        """Return the checked graph; its errors are those of `graph` and `views`."""
        if self._checked is None:
            graph, entry = self.graph(), self.entry
            names = {*entry.added_outputs, *entry.observed}
            if unknown := sorted(names - graph.tensors.keys()):
                raise self.invalid(
                    "observed tensors or outputs are not in the model",
                    [Problem(f"tensor '{name}' not found") for name in unknown],
                )
            outputs = [graph.tensors[name] for name in entry.added_outputs]
            self._checked = CheckedGraph.of(graph, self.views(), self.observed, outputs)
        return self._checked

    @property
    def observed(self) -> Observed:
        """The tensors that watches receive."""
        return Observed(frozenset(self.entry.observed), self.entry.all_observed)

    def load(self, record: Recorder | None = None, control: RunControl | None = None) -> Restored:
        """Return the graph, ready to run.

        Args:
            record: Receives measurements.
            control: Can end the work.

        Raises:
            ContainerError: It is damaged, or does not match its interface.
            BackendError: It cannot be restored without its model, or the control ended the work.
        """
        return load_graphs([self], self._context, record, control)[self.name]


def prepare_all(
    graphs: Sequence[StoredGraph], context: Context, record: Recorder | None, control: RunControl
) -> dict[str, Prepared]:
    """Return graphs of one binary, ready to run, by name; see `StoredGraph.load`."""
    if not graphs:
        return {}
    found = load_graphs(graphs, context, record, control)
    return {name: restored.prepared for name, restored in found.items()}


def load_graphs(
    graphs: Sequence[StoredGraph],
    context: Context,
    record: Recorder | None = None,
    control: RunControl | None = None,
) -> Mapping[str, Restored]:
    """Return graphs of one binary, ready to run; see `StoredGraph.load`."""
    control = control or RunControl()
    file, by_name = graphs[0].file, {graph.name: graph for graph in graphs}
    restored = dict(by_name)
    if file.manifest.is_whole:
        others = file.graphs.keys() - by_name.keys()
        restored |= {name: StoredGraph(file, name, context) for name in others}
    requests = {
        name: PrepareRequest(graph.config, control, record) for name, graph in restored.items()
    }
    image = Image.of(file, [name for name in file.graphs if name in restored])
    has_models = all(graph.has_model for graph in restored.values())
    model = (lambda name: restored[name].checked()) if has_models else None
    with translate_errors(
        context.backend.name, "`restore` failed", "CONTEXT_ERROR_CREATE_FROM_BINARY"
    ):
        found = context.plugin.restore(image, model, requests.__getitem__)
        try:
            control.check()
            for graph in graphs:
                _require_interface(graph, found)
        except BaseException:
            _close_all(found)
            raise
    _close_all({name: each for name, each in found.items() if name not in by_name})
    return found


def _close_all(found: Mapping[str, Restored]) -> None:
    for name, restored in found.items():
        with log_errors(f"closing graph '{name}'"):
            restored.prepared.close()


def _require_interface(graph: StoredGraph, found: Mapping[str, Restored]) -> None:
    """Raise unless a restored graph has the interface that the manifest promises."""
    restored = found.get(graph.name)
    promised = Interface.of(graph.name, *graph.file.interface(graph.name))
    if restored is None or _specs(restored.interface) != _specs(promised):
        raise graph.invalid("the inputs and outputs are not those that the manifest lists")


def _specs(interface: Interface) -> list[list[tuple[Any, ...]]]:
    """Return all that buffers of inputs and outputs are checked against."""
    return [
        [(name, end.tensor.spec, *_form(end.tensor)) for name, end in ends.items()]
        for ends in (interface.inputs, interface.outputs)
    ]


def _form(tensor: ir.Tensor) -> tuple[Any, ...]:
    return (tensor.kind, tensor.dynamic, tensor.memory_type, tensor.data_format)
