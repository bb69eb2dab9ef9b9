"""Profiles: trees of events, basic (whole calls) or detailed (each node)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dovetail.ir import Array
from dovetail.plugins.events import NodeExecuted
from dovetail.plugins.hooks import hooks
from dovetail.runtime.contract import Watch
from dovetail.runtime.handle import Handle, api_call

if TYPE_CHECKING:  # a profile belongs to a backend, which imports it
    from dovetail.runtime.backend import Backend


class ProfileLevel(enum.IntEnum):
    """How much is measured; QNN's numbers."""

    BASIC = 1
    DETAILED = 2


class EventType(enum.IntEnum):
    """What an event measures; QNN's numbers."""

    FINALIZE = 300
    EXECUTE = 400
    NODE = 404
    EXECUTE_QUEUE_WAIT = 405


class EventUnit(enum.IntEnum):
    """Unit of an event's value; QNN's numbers."""

    MICROSEC = 1
    BYTES = 2
    COUNT = 4


@dataclass(frozen=True, slots=True)
class ProfileEvent:
    """One measurement.

    Attributes:
        type: What was measured.
        identifier: Of which graph or node, in the user's terms.
        value: How much.
        unit: Of what.
        children: Measurements of its parts.
    """

    type: EventType
    identifier: str
    value: float
    unit: EventUnit = EventUnit.MICROSEC
    children: tuple[ProfileEvent, ...] = ()


@dataclass(slots=True)
class NodeWatch:
    """Collects the nodes' times of one run. A `Watch`."""

    events: list[ProfileEvent] = field(default_factory=list)

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        """Notes a step's time under the names of its nodes."""
        self.events.append(ProfileEvent(EventType.NODE, " + ".join(nodes), microseconds))


@dataclass(frozen=True, slots=True)
class AnnouncedWatch:
    """Tells the hooks of each step, then who watches. A `Watch`."""

    graph: str
    inner: Watch

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        """Passes a step on."""
        hooks.node_executed(NodeExecuted(self.graph, nodes, outputs, microseconds))
        self.inner.step_finished(nodes, microseconds, outputs)


class Profile(Handle):
    """Collects events of the calls it is given to. Made by `Backend.create_profile`."""

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
        self.require_alive()
        return tuple(self._events)

    def add(self, event: ProfileEvent) -> None:
        """Notes an event."""
        self._events.append(event)

    def clear(self) -> None:
        """Forgets all events."""
        self._events.clear()

    @api_call("profile_free")
    def free(self) -> None:
        """Ends the handle."""
        self.die()
