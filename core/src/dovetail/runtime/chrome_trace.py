"""Profile logs as Chrome traces, which Perfetto and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dovetail.runtime.enums import ProfiledCall
from dovetail.runtime.measurements import EventType, EventUnit, ProfileEvent
from dovetail.runtime.profile_log import LogRecord, LogSection

_APPLICATION = "application"
_CALLER = "calls"
_APPLICATION_CALLS = {
    ProfiledCall.APP_CONTEXT_CREATE,
    ProfiledCall.APP_COMPOSE_GRAPHS,
    ProfiledCall.APP_EXECUTE_IPS,
    ProfiledCall.APP_BACKEND_LIB_LOAD,
}


def chrome_trace(sections: Iterable[LogSection]) -> dict[str, Any]:
    """Return a profile log in the JSON format of Chrome traces.

    A backend is a process of the trace and a queue is a thread of it. Times are microseconds after
    the first event. Quantities that are not times, and times without a start, are arguments of the
    enclosing event.

    Args:
        sections: From `read_profile_log`.
    """
    tracks, sections = _Tracks(), tuple(sections)
    # clocks of processes differ; numbers stay small, since those since 1970 have few digits left
    clocks = [section.header.unix_us - section.header.clock_us for section in sections]
    slices = [
        found
        for section, clock in zip(sections, clocks, strict=True)
        for record in section.records
        for found in _slices(record, clock - clocks[0], tracks)
    ]
    first = min((found["ts"] for found in slices), default=0.0)
    for found in slices:
        found["ts"] -= first
    return {"displayTimeUnit": "ms", "traceEvents": [*tracks.names(), *slices]}


class _Tracks(msgspec.Struct):
    """The processes and threads of a trace, numbered in order of appearance."""

    backends: dict[str, int] = msgspec.field(default_factory=dict)
    queues: dict[tuple[int, str], int] = msgspec.field(default_factory=dict)

    def of(self, backend: str, queue: str) -> tuple[int, int]:
        process = self.backends.setdefault(backend, len(self.backends) + 1)
        return process, self.queues.setdefault((process, queue), len(self.queues) + 1)

    def names(self) -> Iterator[dict[str, Any]]:
        for name, process in self.backends.items():
            yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        for (process, name), thread in self.queues.items():
            place = {"pid": process, "tid": thread, "args": {"name": name}}
            yield {"ph": "M", "name": "thread_name", **place}


def _slices(record: LogRecord, offset_us: float, tracks: _Tracks) -> Iterator[dict[str, Any]]:
    """Yield the slices of a call, with times on the clock of the first process."""
    is_own = record.call in _APPLICATION_CALLS
    open_events = [(record.event, _APPLICATION if is_own else "", _CALLER)]
    while open_events:
        event, backend, queue = open_events.pop()
        backend, queue = event.backend or backend, event.queue or queue
        open_events += [(child, backend, queue) for child in reversed(event.children)]
        if not _is_slice(event):
            continue
        process, thread = tracks.of(backend, queue)
        yield {
            "ph": "X",
            "name": event.identifier,
            "cat": _name(EventType, event.type),
            "ts": (event.start_us or 0.0) + offset_us,
            "dur": event.value,
            "pid": process,
            "tid": thread,
            "args": dict(_quantities(event)),
        }


def _is_slice(event: ProfileEvent) -> bool:
    """Return whether a track can show an event; times in a queue overlap each other."""
    return (
        event.unit == EventUnit.MICROSEC
        and event.start_us is not None
        and event.type != EventType.EXECUTE_QUEUE_WAIT
    )


def _quantities(event: ProfileEvent) -> Iterator[tuple[str, float]]:
    """Yield the quantities of an event that are no slices, with their units in their names."""
    for counter in event.counters:
        yield f"{counter.name} ({_name(EventUnit, counter.unit)})", counter.value
    for child in event.children:
        if not _is_slice(child):
            is_same = child.identifier == event.identifier
            name = _name(EventType, child.type) if is_same else child.identifier
            yield f"{name} ({_name(EventUnit, child.unit)})", child.value


def _name(of: type[EventType | EventUnit], number: int) -> str:
    """Return a name in lower case; the number if it is a backend's own."""
    names = {member.value: member.name.lower() for member in of}
    return names.get(number, str(number))
