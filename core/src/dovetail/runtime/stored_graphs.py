"""Graphs of context binaries: their parts in the file, and loading when they are first needed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dovetail import ir
from dovetail.container import ContextFile
from dovetail.errors import BackendError, ConfigError, ContainerError, Problem
from dovetail.ir.check import raise_faults
from dovetail.ops import CheckedGraph, NodeView, Observed, require_known
from dovetail.runtime.base import PreparedBase
from dovetail.runtime.config import GraphConfig, typed_config
from dovetail.runtime.contract import (
    Binding,
    Done,
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
            faults = error.problems or (Problem(error.message, error.where, error.hint),)
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
            GraphError: Nodes do not match their ops; every reason is listed.
        """
        if self._views is None:
            graph, backend = self.graph(), self._context.backend
            known = [node for node in graph.nodes if not backend.is_opaque(node)]
            require_known(known, backend.ops, f"graph '{self.name}'")
            found = [(node, *backend.checked(node)) for node in graph.nodes]
            raise_faults(graph, [fault for _, _, faults in found for fault in faults])
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

    def load_again(self, prepared: Prepared) -> Prepared:
        """Return the graph as it is in the binary, in place of one that was changed.

        Raises:
            ContainerError: As for `load`.
            BackendError: As for `load`; the changed one stays as it is.
        """
        if isinstance(prepared, LazyPrepared):
            prepared.reset()
            return prepared
        found = self.load().prepared
        with log_errors(f"closing graph '{self.name}'"):
            prepared.close()
        return found

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


def prepare_lazily(
    graphs: Sequence[StoredGraph], limit_bytes: int, control: RunControl
) -> dict[str, Prepared]:
    """Return graphs that are loaded when they run, by name; see `Residency`.

    Args:
        graphs: The graphs; as many of the first ones as the limit allows are loaded at once.
        limit_bytes: Memory that loaded graphs may take together.
        control: Can end the loading.
    """
    residency = Residency(limit_bytes)
    found = {graph.name: LazyPrepared(graph, residency) for graph in graphs}
    try:
        residency.preload(tuple(found.values()), control)
        control.check()
    except BaseException:
        for each in found.values():
            each.close()
        raise
    return dict(found)


@contextmanager
def all_loaded(graphs: Mapping[str, Prepared]) -> Iterator[Mapping[str, Prepared]]:
    """Return graphs as their backend knows them, loaded during the `with` block."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(each.using()) if isinstance(each, LazyPrepared) else each
            for name, each in graphs.items()
        }


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


class Residency:
    """The graphs of a binary that are loaded when they run, within a limit of memory.

    Args:
        limit_bytes: Memory that loaded graphs may take together; graphs whose last
            run is the oldest are dropped to stay under it. One graph alone may exceed it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = threading.RLock()
        self._loaded: dict[LazyPrepared, None] = {}  # in the order of their last use

    @property
    def loaded_bytes(self) -> int:
        """Memory of the loaded graphs."""
        return sum(graph.nbytes for graph in self._loaded)

    def take(self, graph: LazyPrepared, control: RunControl | None = None) -> Prepared:
        """Return a graph, loaded, and keep it until `give_back`; others may be dropped.

        Args:
            graph: The graph.
            control: Can end the loading.
        """
        with self._lock:
            self._loaded.pop(graph, None)
            if not graph.is_loaded:
                self._make_room(graph.nbytes)
            prepared = graph.loaded(control)
            graph.users += 1
            self._loaded[graph] = None
            return prepared

    def give_back(self, graph: LazyPrepared) -> None:
        """End a use of a graph."""
        with self._lock:
            graph.users -= 1

    def preload(self, graphs: Sequence[LazyPrepared], control: RunControl) -> None:
        """Load graphs in order, as many as the limit allows."""
        for graph in graphs:
            if self.loaded_bytes + graph.nbytes > self.limit_bytes:
                return
            self.take(graph, control)
            self.give_back(graph)

    def forget(self, graph: LazyPrepared) -> None:
        """Drop a graph, which is closed."""
        with self._lock:
            self._loaded.pop(graph, None)
            graph.drop()

    def unbind(self, graph: LazyPrepared) -> None:
        """Drop the buffers of a graph's earlier runs if it is loaded."""
        with self._lock:  # it must not be dropped meanwhile
            if graph in self._loaded:
                graph.loaded().unbind()

    def _make_room(self, nbytes: int) -> None:
        for graph in tuple(self._loaded):
            if self.loaded_bytes + nbytes <= self.limit_bytes:
                return
            if not graph.users and not graph.is_changed:
                del self._loaded[graph]
                graph.drop()


class LazyPrepared(PreparedBase):
    """A graph of a binary that is loaded when it runs, and may be dropped afterwards.

    Args:
        stored: The graph in the binary.
        residency: Decides what is loaded.

    Attributes:
        users: Number of runs in progress.
        is_changed: Whether its tensors were updated, so that it cannot be loaded again.
    """

    def __init__(self, stored: StoredGraph, residency: Residency) -> None:
        self._stored = stored
        self._residency = residency
        self._prepared: Prepared | None = None
        self.users = 0
        self.is_changed = False

    @property
    def nbytes(self) -> int:
        """Memory that it takes once loaded, as the binary says."""
        return self._stored.entry.memory_bytes

    @property
    def memory_bytes(self) -> int:
        """See `nbytes`."""
        return self.nbytes

    @property
    def is_loaded(self) -> bool:
        """True if it is loaded."""
        return self._prepared is not None

    def loaded(self, control: RunControl | None = None) -> Prepared:
        """Return it, loaded; called by the residency."""
        if self._prepared is None:
            self._prepared = self._stored.load(control=control).prepared
        return self._prepared

    def drop(self) -> None:
        """Free its memory; called by the residency."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            with log_errors(f"closing graph '{self._stored.name}'"):
                prepared.close()
            self._stored.file.release()

    def unbind(self) -> None:
        """Drop the buffers of earlier runs if it is loaded."""
        self._residency.unbind(self)

    def reset(self) -> None:
        """Load it from the binary again when it is used next; called while it does not run."""
        self._residency.forget(self)
        self.is_changed = False

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        """Load it if necessary, and run it."""
        with self.using(control) as prepared:
            prepared.run(inputs, outputs, control)

    def submit(
        self,
        inputs: Mapping[str, Binding],
        outputs: Mapping[str, Binding],
        control: RunControl,
        done: Done,
    ) -> None:
        """Load it if necessary, and begin a run."""
        prepared = self._residency.take(self, control)

        def ended(error: BaseException | None) -> None:
            self._residency.give_back(self)
            done(error)

        try:
            prepared.submit(inputs, outputs, control, ended)
        except BaseException as error:  # noqa: BLE001 - travels to who waits
            ended(error)

    def update(self, tensors: Sequence[ir.Tensor]) -> None:
        """Update tensors; it stays loaded from now on."""
        with self.using() as prepared:
            prepared.update(tensors)
            self.is_changed = True

    def section(self, names: Collection[str]) -> Image:
        """Return updateable tensors as an image."""
        with self.using() as prepared:
            return prepared.section(names)

    def apply(self, section: Image) -> None:
        """Use the tensors of a section; it stays loaded from now on."""
        with self.using() as prepared:
            prepared.apply(section)
            self.is_changed = True

    def close(self) -> None:
        """Free its memory."""
        self._residency.forget(self)

    @contextmanager
    def using(self, control: RunControl | None = None) -> Iterator[Prepared]:
        """Return it, loaded during the `with` block."""
        prepared = self._residency.take(self, control)
        try:
            yield prepared
        finally:
            self._residency.give_back(self)
