"""Graphs of context binaries that are loaded when they run, within a limit of memory."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from dovetail import ir
from dovetail.runtime.base import PreparedBase
from dovetail.runtime.contract import Binding, Done, Image, Prepared, RunControl
from dovetail.runtime.plugin_errors import log_errors
from dovetail.runtime.stored_graphs import StoredGraph

if TYPE_CHECKING:  # loaded by the backend `hetero` alone
    from dovetail.runtime.placement import Placement


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


def loaded_again(stored: StoredGraph, prepared: Prepared) -> Prepared:
    """Return a graph as it is in its binary, in place of one that was changed.

    Raises:
        ContainerError: As for `StoredGraph.load`.
        BackendError: The same; the changed graph stays as it is.
    """
    if isinstance(prepared, LazyPrepared):
        prepared.reset()
        return prepared
    found = stored.load().prepared
    with log_errors(f"closing graph '{stored.name}'"):
        prepared.close()
    return found


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
        self._facts: tuple[Placement | None, Mapping[str, int]] | None = None
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
    def placement(self) -> Placement | None:
        """See `Prepared.placement`; loads it if it has never been loaded."""
        return self._known()[0]

    @property
    def io_buffers(self) -> Mapping[str, int]:
        """See `Prepared.io_buffers`; loads it if it has never been loaded."""
        return self._known()[1]

    def _known(self) -> tuple[Placement | None, Mapping[str, int]]:
        if self._facts is None:
            with self.using() as prepared:
                return prepared.placement, prepared.io_buffers
        return self._facts

    @property
    def is_loaded(self) -> bool:
        """True if it is loaded."""
        return self._prepared is not None

    def loaded(self, control: RunControl | None = None) -> Prepared:
        """Return it, loaded; called by the residency."""
        if self._prepared is None:
            self._prepared = made = self._stored.load(control=control).prepared
            self._facts = made.placement, made.io_buffers
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
