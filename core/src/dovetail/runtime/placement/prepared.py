"""Prepared graphs of `hetero`: prepared parts that run one after another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Array, Tensor
from dovetail.runtime.base import PreparedBase
from dovetail.runtime.contract import Binding, Fingerprint, Image, Prepared, RunControl
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import Recorder
from dovetail.runtime.placement.images import image_of, joined_fingerprint, joined_image
from dovetail.runtime.placement.members import close_all
from dovetail.runtime.placement.parts import seams
from dovetail.runtime.placement.report import Placement


@dataclass(frozen=True, slots=True)
class PreparedPart:
    """A part that is ready to run.

    Attributes:
        name: Unique among the parts of a graph.
        backend: Name of the member that runs it.
        nodes: Names of its nodes.
        updateable: Names of the UPDATEABLE tensors that they use.
        interface: Its inputs and outputs.
        prepared: What runs.
    """

    name: str
    backend: str
    nodes: tuple[str, ...]
    updateable: tuple[str, ...]
    interface: Interface
    prepared: Prepared


class HeteroPrepared(PreparedBase):
    """A graph in parts. Values between parts are in buffers that are allocated once.

    Args:
        interface: Inputs and outputs of the graph.
        parts: The parts, in the order in which they run.
        placement: The report on them.
    """

    def __init__(
        self, interface: Interface, parts: Sequence[PreparedPart], placement: Placement
    ) -> None:
        self.interface = interface
        self.parts = tuple(parts)
        self._placement = placement
        self._failed: frozenset[str] = frozenset()  # tensors of which some parts have other values
        buffers = seams(interface, [part.interface for part in parts])
        self._only = parts[0].prepared if len(parts) == 1 else None
        self._calls = [
            (
                part,
                _Bindings(part.interface.inputs, buffers),
                _Bindings(part.interface.outputs, buffers),
            )
            for part in parts
        ]

    @property
    def placement(self) -> Placement:
        """The backends of the parts, with the reasons."""
        return self._placement

    @placement.setter
    def placement(self, placement: Placement) -> None:
        self._placement = placement

    @property
    def io_buffers(self) -> Mapping[str, int]:
        """The buffers of its parts for the graph's inputs and outputs; see `Prepared.io_buffers`.

        Each part that reads an input has a buffer of its own.
        """
        found: dict[str, int] = {}
        for part in self.parts:
            for name, nbytes in part.prepared.io_buffers.items():
                if name in self.interface.inputs or name in self.interface.outputs:
                    found[name] = found.get(name, 0) + nbytes
        return found

    @property
    def memory_bytes(self) -> int:
        """Memory of all parts."""
        return sum(part.prepared.memory_bytes for part in self.parts)

    @property
    def needs_model(self) -> bool:
        """True if a part needs the model."""
        return any(part.prepared.needs_model for part in self.parts)

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        """Run the parts one after another; see `Prepared.run`.

        Raises:
            BackendError: A part failed, or a change of some parts has failed before.
        """
        if self._only is not None and control.record is None:
            self._only.run(inputs, outputs, control)
            return
        if self._failed:
            raise BackendError(
                f"an update of {', '.join(sorted(self._failed))} has changed only some parts",
                code="GRAPH_ERROR_GENERAL",
                where=f"graph '{self.interface.graph}'",
                hint="update these tensors again",
            )
        readable = {**outputs, **inputs}  # parts also read outputs of parts before them
        for part, read, written in self._calls:
            if control.limited:
                control.check()
            if control.record is None:
                part.prepared.run(read.of(readable), written.of(outputs), control)
                continue
            with recorded_as(part.backend, control.record):
                part.prepared.run(read.of(readable), written.of(outputs), control)

    def unbind(self) -> None:
        """Drop the application's buffers in all parts; see `Prepared.unbind`."""
        for part, read, written in self._calls:
            read.unbind()
            written.unbind()
            part.prepared.unbind()

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Update each part that uses one of the tensors; see `Prepared.update`."""
        own = {
            i: [tensor for tensor in tensors if tensor.name in part.updateable]
            for i, part in enumerate(self.parts)
        }
        users = [i for i in own if own[i]] or [0]  # it rejects tensors that none has
        changes = [partial(self.parts[i].prepared.update, own[i]) for i in users]
        self._change(changes, frozenset(tensor.name for tensor in tensors))

    def section(self, names: Collection[str]) -> Image:
        """Return the sections of the parts that use the tensors; see `Prepared.section`."""
        own = [[name for name in part.updateable if name in names] for part in self.parts]
        images = [
            part.prepared.section(used) if used else Image(Fingerprint(), {})
            for part, used in zip(self.parts, own, strict=True)
        ]
        plans = [
            dict(image.graphs) if used else None for image, used in zip(images, own, strict=True)
        ]
        return joined_image(
            images,
            joined_fingerprint(image.fingerprint for image in images),
            {self.interface.graph: {"layout": self._layout(), "plans": plans}},
        )

    def apply(self, section: Image) -> None:
        """Apply the sections of the parts; see `Prepared.apply`.

        Raises:
            ContainerError: The section is of a graph with other parts.
        """
        name = self.interface.graph
        stored = section.graphs.get(name)
        plans: Any = None
        if isinstance(stored, Mapping) and stored.get("layout") == self._layout():
            plans = stored.get("plans")
        is_list = isinstance(plans, list) and all(p is None or isinstance(p, dict) for p in plans)
        if not is_list or len(plans) != len(self.parts):
            raise ContainerError(
                "the section is of a graph with other parts",
                code="CONTAINER_INCOMPATIBLE",
                where=f"graph '{name}'",
                hint="create it again with the placement of this graph",
            )
        changes = [
            partial(part.prepared.apply, image_of(section, i, plans[i]))
            for i, part in enumerate(self.parts)
            if plans[i] is not None  # of a part that has none of the tensors
        ]
        self._change(changes, frozenset(name for part in self.parts for name in part.updateable))

    def close(self) -> None:
        """Close all parts."""
        close_all((part.backend, part.prepared) for part in self.parts)

    def _change(self, changes: Iterable[Callable[[], None]], tensors: frozenset[str]) -> None:
        """Change parts; if a change fails after another was made, runs raise until it is repeated.

        Args:
            changes: The changes.
            tensors: Names of the tensors that they change.
        """
        is_changed = False
        for change in changes:
            try:
                change()
            except BaseException:
                if is_changed:
                    self._failed |= tensors
                raise
            is_changed = True
        self._failed -= tensors

    def _layout(self) -> list[list[Any]]:
        """Return the backends and nodes of the parts, as JSON data."""
        return [[part.backend, list(part.nodes)] for part in self.parts]


class _Bindings:
    """Bindings that a part reads or writes: the application's, and buffers between parts.

    Args:
        names: Names of its inputs or outputs.
        buffers: The buffers by name.
    """

    def __init__(self, names: Iterable[str], buffers: Mapping[str, Array]) -> None:
        names = tuple(names)
        self._bindings: dict[str, Binding] = {n: buffers[n] for n in names if n in buffers}
        self._others = tuple(name for name in names if name not in buffers)

    def of(self, application: Mapping[str, Binding]) -> Mapping[str, Binding]:
        """Return the bindings of a run by name, for the application's."""
        for name in self._others:
            self._bindings[name] = application[name]
        return self._bindings

    def unbind(self) -> None:
        """Drop the application's."""
        for name in self._others:
            self._bindings.pop(name, None)


@contextmanager
def recorded_as(backend: str, record: Recorder | None) -> Iterator[None]:
    """Add the name of a backend to the events that are recorded meanwhile."""
    before = 0 if record is None else len(record.events)
    yield
    if record is not None:
        record.events[before:] = [
            event if event.backend else msgspec.structs.replace(event, backend=backend)
            for event in record.events[before:]
        ]
