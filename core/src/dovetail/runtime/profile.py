"""Profiles: trees of events, basic (calls) or detailed (nodes)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dovetail.errors import BackendError
from dovetail.ir import Array
from dovetail.plugins.events import NodeExecuted
from dovetail.plugins.hooks import hooks
from dovetail.runtime.contract import Watch
from dovetail.runtime.enums import ProfileLevel
from dovetail.runtime.handle import Handle, api_call
from dovetail.runtime.measurements import EventType, ProfileEvent

if TYPE_CHECKING:  # a profile belongs to a backend, which imports it
    from dovetail.runtime.backend import Backend


@dataclass(slots=True)
class NodeWatch:
    """A `Watch` that collects the times of the nodes in a run."""

    events: list[ProfileEvent] = field(default_factory=list)

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        """Record a step's time under the names of its nodes."""
        self.events.append(ProfileEvent(EventType.NODE, " + ".join(nodes), microseconds))


@dataclass(frozen=True, slots=True)
class AnnouncedWatch:
    """A `Watch` that notifies the hooks of each step, then another watch."""

    graph: str
    inner: Watch

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        """Notify the hooks and the other watch of a step."""
        hooks.node_executed(NodeExecuted(self.graph, nodes, outputs, microseconds))
        self.inner.step_finished(nodes, microseconds, outputs)


class Profile(Handle):
    """Collects events of the calls that it is passed to. Created by `Backend.create_profile`."""

    kind = "profile"
    invalid_code = "PROFILE_ERROR_INVALID_HANDLE"

    def __init__(self, backend: Backend, level: ProfileLevel) -> None:
        super().__init__()
        self.backend = backend
        self.level = level
        self._events: list[ProfileEvent] = []

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
        """Return the children of an event.

        Args:
            path: Indices from the top: (2, 0) is the first child of the third event.

        Raises:
            BackendError: There is no such event.
        """
        found: Sequence[ProfileEvent] = self._events
        for index in path:
            if not 0 <= index < len(found):
                raise BackendError(
                    f"event {tuple(path)} not found", code="PROFILE_ERROR_INVALID_ARGUMENT"
                )
            found = found[index].children
        return tuple(found)

    def add(self, event: ProfileEvent) -> None:
        """Record an event."""
        self._events.append(event)

    def clear(self) -> None:
        """Forget all events."""
        self._events.clear()

    @api_call("profile_free")
    def free(self) -> None:
        """Invalidate the handle."""
        self.invalidate()


class Measurement:
    """Measurement of an execution: the watch of its steps, and the record in its profile.

    Attributes:
        watch: Receives each step: the caller's watch, or else that of a detailed profile, and the
            hooks if there are any. None for a run that is not watched.
    """

    @classmethod
    def of(cls, graph: str, profile: Profile | None, watch: Watch | None) -> Measurement | None:
        """Return the measurement of an execution; None without a profile or a watch."""
        return None if profile is None and watch is None else cls(graph, profile, watch)

    def __init__(self, graph: str, profile: Profile | None, watch: Watch | None) -> None:
        self._graph = graph
        self._profile = profile
        self._nodes: NodeWatch | None = None
        if profile is not None:
            profile.require_alive()
            if profile.level is ProfileLevel.DETAILED and watch is None:
                watch = self._nodes = NodeWatch()
        if watch is not None and hooks.active:
            watch = AnnouncedWatch(graph, watch)
        self.watch = watch

    def note(self, took_us: float, *, waited_us: float | None = None) -> None:
        """Record a run in the profile, if there is one.

        Args:
            took_us: Duration of the run in microseconds.
            waited_us: Time that it waited in a queue, in microseconds.
        """
        if self._profile is None:
            return
        parts = tuple(self._nodes.events) if self._nodes is not None else ()
        if waited_us is not None:
            wait = ProfileEvent(EventType.EXECUTE_QUEUE_WAIT, self._graph, waited_us)
            parts = (wait, *parts)
        event = ProfileEvent(EventType.EXECUTE, self._graph, took_us, children=parts)
        self._profile.add(event)
