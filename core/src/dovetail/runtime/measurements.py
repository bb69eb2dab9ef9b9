"""Measurements: the events of profiles, which backends record, too."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator

import msgspec

from dovetail.errors import BackendError


class EventType(enum.IntEnum):
    """Kind of measurement of an event; QNN's numbers. Those of backends begin at BACKEND."""

    INIT = 100
    FINALIZE = 300
    EXECUTE = 400
    NODE = 404
    EXECUTE_QUEUE_WAIT = 405
    EXECUTE_PREPROCESS = 406
    EXECUTE_DEVICE = 407
    EXECUTE_POSTPROCESS = 408
    DEINIT = 500
    TRACE = 600
    BACKEND = 1000


class EventUnit(enum.IntEnum):
    """Unit of a value; QNN's numbers. Those of backends begin at BACKEND."""

    MICROSEC = 1
    BYTES = 2
    CYCLES = 3
    COUNT = 4
    OBJECT = 5
    NONE = 6
    BACKEND = 1000


class Counter(msgspec.Struct, frozen=True):
    """A quantity that belongs to an event.

    Attributes:
        name: Its name: `work` (multiply-accumulates), `bytes_moved`, `allocations`, `saturations`,
            `cycles`, or one of a backend's own.
        value: The value.
        unit: Its unit.
    """

    name: str
    value: float
    unit: int = EventUnit.COUNT


class ProfileEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A measurement.

    Attributes:
        type: Kind of measurement: an `EventType`, or a number of the backend's own.
        identifier: The graph or node, in the user's terms.
        value: The measured value; of a time, the duration.
        unit: Unit of the value: an `EventUnit`, or a number of the backend's own.
        children: Measurements of its parts.
        start_us: Time of its start in microseconds on the clock of `time.perf_counter`, if known.
        backend: Name of the backend; empty for that of the enclosing event.
        queue: Name of the queue that it ran in; empty for that of the enclosing event, or for the
            caller's thread.
        counters: Other quantities, each with its unit.
    """

    type: int
    identifier: str
    value: float
    unit: int = EventUnit.MICROSEC
    children: tuple[ProfileEvent, ...] = ()
    start_us: float | None = None
    backend: str = ""
    queue: str = ""
    counters: tuple[Counter, ...] = ()

    @property
    def sub_events(self) -> tuple[ProfileEvent, ...]:
        """Its children, and an event for each counter, as in QNN's API, which has no counters."""
        return self.children + tuple(
            ProfileEvent(self.type, f"{self.identifier} ({c.name})", c.value, c.unit)
            for c in self.counters
        )


class Recorder:
    """Receives the measurements that a backend makes during one call with a profile.

    Calling it records an event. It exists only if the call has a profile, so that a call without
    one costs nothing.

    Args:
        level: Level of the profile: a `ProfileLevel`, or a number of the backend's own.
        has_nodes: Whether nodes are to be measured.

    Attributes:
        events: The events so far.
    """

    __slots__ = ("events", "has_nodes", "level")

    def __init__(self, level: int, *, has_nodes: bool) -> None:
        self.level = level
        self.has_nodes = has_nodes
        self.events: list[ProfileEvent] = []

    def __call__(self, event: ProfileEvent) -> None:
        """Record an event.

        Raises:
            BackendError: It is not an event, or a number in it is not finite.
        """
        if not isinstance(event, ProfileEvent):
            raise _wrong(f"expected a ProfileEvent, got {type(event).__name__}")
        if fault := find_fault(event):
            raise _wrong(fault)
        self.events.append(event)


def first_events(event: ProfileEvent, limit: int) -> tuple[ProfileEvent | None, int]:
    """Return an event with its first parts, and their number.

    Args:
        event: The event.
        limit: Maximum number of events: the event counts as one, and so does each of its parts.
    """
    if limit < 1:
        return None, 0
    parts: list[ProfileEvent] = []
    count = 1
    for child in event.children:
        part, within = first_events(child, limit - count)
        if part is None:
            break
        parts.append(part)
        count += within
    return msgspec.structs.replace(event, children=tuple(parts)), count


def find_fault(event: ProfileEvent) -> str:
    """Return which number of an event is not finite; empty if all are."""
    for name, value in _numbers(event):
        if not math.isfinite(value):
            return f"{name} is {value}"
    return ""


def _numbers(event: ProfileEvent) -> Iterator[tuple[str, float]]:
    yield f"the value of '{event.identifier}'", event.value
    yield f"the start of '{event.identifier}'", event.start_us or 0.0
    for counter in event.counters:
        yield f"counter '{counter.name}' of '{event.identifier}'", counter.value
    for child in event.children:
        yield from _numbers(child)


def _wrong(text: str) -> BackendError:
    return BackendError(f"the backend recorded an invalid measurement: {text}")
