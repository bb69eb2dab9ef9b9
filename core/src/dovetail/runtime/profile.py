"""Profiles: trees of events, basic (calls), detailed (nodes) or of a backend's own level."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from dovetail.errors import BackendError
from dovetail.ir import Array
from dovetail.plugins.events import NodeExecuted
from dovetail.plugins.hooks import hooks
from dovetail.runtime.contract import Watch
from dovetail.runtime.enums import ProfileLevel
from dovetail.runtime.handle import Handle, api_call
from dovetail.runtime.measurements import Counter, EventType, ProfileEvent, Recorder

if TYPE_CHECKING:  # a profile belongs to a backend, which imports it
    from dovetail.runtime.backend import Backend
    from dovetail.runtime.graph import Graph

Sink = Callable[[ProfileEvent], None]


class EventData(msgspec.Struct, frozen=True):
    """The data of an event, as in QNN's API.

    Attributes:
        type: Kind of measurement.
        unit: Unit of the value.
        value: The value, rounded.
        identifier: The graph or node.
    """

    type: int
    unit: int
    value: int
    identifier: str


class ExtendedEventData(msgspec.Struct, frozen=True):
    """The data of an event with its time, as in QNN's API.

    Attributes:
        type: Kind of measurement.
        unit: Unit of the value.
        timestamp: Its start in microseconds on the clock of `time.perf_counter`; 0 if unknown.
        value: The exact value.
        identifier: The graph or node.
    """

    type: int
    unit: int
    timestamp: int
    value: float
    identifier: str


class AnnouncedWatch(msgspec.Struct, frozen=True):
    """A `Watch` that notifies the hooks of each step, then another watch if there is one."""

    graph: str
    inner: Watch | None

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        """Notify the hooks and the other watch of a step."""
        hooks.node_executed(NodeExecuted(self.graph, nodes, outputs, microseconds))
        if self.inner is not None:
            self.inner.step_finished(nodes, microseconds, outputs)


class Profile(Handle):
    """Collects events of the calls that it is passed to. Created by `Backend.create_profile`.

    Attributes:
        backend: Its backend.
        level: A `ProfileLevel`, or a number of the backend's own.
    """

    kind = "profile"
    invalid_code = "PROFILE_ERROR_INVALID_HANDLE"

    def __init__(self, backend: Backend, level: int) -> None:
        super().__init__()
        self.backend = backend
        self.level = level
        self._events: list[ProfileEvent] = []
        self._sink: Sink | None = None

    @property
    def events(self) -> tuple[ProfileEvent, ...]:
        """Events so far, oldest first."""
        return self.get_events()

    @api_call("profile_get_events")
    def get_events(self) -> tuple[ProfileEvent, ...]:
        """Return the events so far, oldest first."""
        return tuple(self._events)

    @api_call("profile_get_sub_events")
    def get_sub_events(self, path: Sequence[int]) -> tuple[ProfileEvent, ...]:
        """Return the parts of an event, and an event for each of its counters.

        Args:
            path: Indices from the top: (2, 0) is the first part of the third event.

        Raises:
            BackendError: There is no such event.
        """
        return self._event(path).sub_events

    @api_call("profile_get_event_data")
    def get_event_data(self, path: Sequence[int]) -> EventData:
        """Return the data of an event.

        Args:
            path: As for `get_sub_events`.

        Raises:
            BackendError: There is no such event.
        """
        event = self._event(path)
        return EventData(event.type, event.unit, round(event.value), event.identifier)

    @api_call("profile_get_extended_event_data")
    def get_extended_event_data(self, path: Sequence[int]) -> ExtendedEventData:
        """Return the data of an event with its time.

        Args:
            path: As for `get_sub_events`.

        Raises:
            BackendError: There is no such event.
        """
        event = self._event(path)
        start = round(event.start_us or 0)
        return ExtendedEventData(event.type, event.unit, start, event.value, event.identifier)

    @api_call("profile_stream_to")
    def stream_to(self, sink: Sink | None) -> None:
        """Pass later events to a function instead of collecting them.

        Args:
            sink: Called in the thread that a call ends in; None to collect again.
        """
        self._sink = sink

    def recorder(self) -> Recorder:
        """Return a recorder for one call."""
        return Recorder(self.level, has_nodes=self.level != ProfileLevel.BASIC)

    def add(self, event: ProfileEvent) -> None:
        """Record an event."""
        if self._sink is None:
            self._events.append(event)
        else:
            self._sink(event)

    def add_call(
        self,
        kind: EventType,
        name: str,
        record: Recorder,
        start_s: float,
        *,
        backend: str,
        counters: tuple[Counter, ...] = (),
    ) -> None:
        """Record a call that ends now.

        Args:
            kind: Kind of measurement.
            name: What the call is about.
            record: The measurements during the call.
            start_s: Time of its start in seconds on the clock of `time.perf_counter`.
            backend: Name of the backend.
            counters: Quantities of the call.
        """
        took_us = (time.perf_counter() - start_s) * 1e6
        self.add(
            ProfileEvent(
                kind,
                name,
                took_us,
                children=tuple(record.events),
                start_us=start_s * 1e6,
                backend=backend,
                counters=counters,
            )
        )

    @api_call("profile_clear")
    def clear(self) -> None:
        """Forget all events."""
        self._events.clear()

    @api_call("profile_free")
    def free(self) -> None:
        """Invalidate the handle."""
        self.invalidate()

    def _event(self, path: Sequence[int]) -> ProfileEvent:
        found: Sequence[ProfileEvent] = self._events
        event: ProfileEvent | None = None
        for index in path:
            if not 0 <= index < len(found):
                event = None
                break
            event = found[index]
            found = event.sub_events
        if event is None:
            raise BackendError(
                f"event {tuple(path)} not found", code="PROFILE_ERROR_INVALID_ARGUMENT"
            )
        return event


class Measurement:
    """Measurement of an execution: who receives its steps, and the record in its profile.

    Args:
        graph: The graph.
        profile: Records the run, or None.
        watch: The caller's watch, or None.
        counters: Quantities of the execution.

    Attributes:
        watch: Receives each step: the caller's watch, and the hooks if there are any. None for a
            run without either.
        record: Receives the measurements of the backend; None without a profile.
    """

    @classmethod
    def of(
        cls,
        graph: Graph,
        profile: Profile | None,
        watch: Watch | None,
        counters: tuple[Counter, ...],
    ) -> Measurement | None:
        """Return the measurement of an execution; None without a profile or a watch."""
        return None if profile is None and watch is None else cls(graph, profile, watch, counters)

    def __init__(
        self,
        graph: Graph,
        profile: Profile | None,
        watch: Watch | None,
        counters: tuple[Counter, ...] = (),
    ) -> None:
        self._graph = graph
        self._counters = counters
        self._profile = profile
        self.record: Recorder | None = None
        if profile is not None:
            profile.require_alive()
            self.record = profile.recorder()
        if hooks.active and (watch is not None or (self.record and self.record.has_nodes)):
            watch = AnnouncedWatch(graph.name, watch)
        self.watch = watch

    def note(self, start_s: float, took_us: float, waited_us: float | None = None) -> None:
        """Record a run in the profile, if there is one.

        Args:
            start_s: Time of its start in seconds.
            took_us: Duration of the run in microseconds.
            waited_us: Time that it waited in the device's queue, in microseconds; None if it ran in
                the caller's thread.
        """
        if self._profile is None or self.record is None:
            return
        name, context = self._graph.name, self._graph.context
        start_us, parts, queue = start_s * 1e6, tuple(self.record.events), ""
        if waited_us is not None:
            queue, queued_us = context.device.queue.name, start_us - waited_us
            wait = ProfileEvent(EventType.EXECUTE_QUEUE_WAIT, name, waited_us, start_us=queued_us)
            parts = (wait, *parts)
        event = ProfileEvent(
            EventType.EXECUTE,
            name,
            took_us,
            children=parts,
            start_us=start_us,
            backend=context.backend.name,
            queue=queue,
            counters=self._counters,
        )
        self._profile.add(event)
