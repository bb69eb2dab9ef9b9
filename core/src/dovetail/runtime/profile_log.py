"""The profile log: measurements on disk, one JSON object per line; see docs/profiling.md.

Each process that writes to a log begins with a header line. Lines are written whole and at once, so
that a log can be read while it grows, and after a crash.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import msgspec

from dovetail.container import Closing
from dovetail.errors import ContainerError
from dovetail.files import unreadable, unwritable
from dovetail.runtime.enums import ProfiledCall
from dovetail.runtime.measurements import EventType, ProfileEvent, first_events

FORMAT = "dovetail-profile"
VERSION = 1
PREFIX = f'{{"format":"{FORMAT}"'.encode()

_CALLS: dict[int, ProfiledCall] = {
    EventType.INIT: ProfiledCall.BACKEND_CREATE_FROM_BINARY,
    EventType.FINALIZE: ProfiledCall.BACKEND_FINALIZE,
    EventType.EXECUTE: ProfiledCall.BACKEND_EXECUTE,
    EventType.DEINIT: ProfiledCall.BACKEND_DEINIT,
}


class LogHeader(msgspec.Struct, frozen=True):
    """The first line of each process.

    Attributes:
        format: The name of the format.
        version: Its version; readers reject a newer one, and ignore unknown keys.
        producer: The program that wrote the log, and its version.
        clock_us: Time on the clock of `ProfileEvent.start_us`, in microseconds.
        unix_us: The same time in microseconds since 1970, UTC.
    """

    format: str
    version: int
    producer: str
    clock_us: float
    unix_us: float


class LogRecord(msgspec.Struct, frozen=True):
    """A call.

    Attributes:
        call: Kind of call: a `ProfiledCall`.
        graph: Name of its graph; empty if it is about none.
        event: Its measurement.
    """

    call: int
    graph: str
    event: ProfileEvent


class LogSection(msgspec.Struct, frozen=True):
    """The part of a log that one process wrote.

    Attributes:
        header: Its header.
        records: Its calls, in the order in which they ended.
        is_cut: Whether its last line is incomplete, because the process or the machine crashed.
    """

    header: LogHeader
    records: tuple[LogRecord, ...]
    is_cut: bool = False


class ProfileLog(Closing):
    """Writes a profile log; appends to an existing one. A context manager.

    Args:
        path: The file.
        max_events: Maximum number of events of the runtime's calls that are written for each graph,
            parts included; later ones are left out. None without a limit.

    Raises:
        ContainerError: The file exists and is not a profile log, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], max_events: int | None = None) -> None:
        self.path = Path(path)
        self._max_events = max_events
        self._written: Counter[str] = Counter()  # events by graph
        self._lock = threading.Lock()
        try:
            self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise unwritable(self.path, error) from error
        try:
            self._begin()
        except BaseException:
            self._file.close()
            raise

    def write(
        self, event: ProfileEvent, *, call: int | None = None, graph: str | None = None
    ) -> None:
        """Write a call.

        Args:
            event: Its measurement, with finite numbers.
            call: Kind of call; by default that of the runtime with this type of event. A call of
                the application does not count as events.
            graph: Name of the graph; by default the event's identifier.

        Raises:
            ContainerError: The file cannot be written.
        """
        name = event.identifier if graph is None else graph
        if call is None:
            kept = self._within_limit(event, name)
            if kept is None:
                return
            event = kept
            call = _CALLS.get(event.type, ProfiledCall.NONE)
            if call is ProfiledCall.BACKEND_EXECUTE and event.queue:
                call = ProfiledCall.BACKEND_EXECUTE_ASYNC
        self._write_line(LogRecord(call, name, event))

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()

    def _within_limit(self, event: ProfileEvent, graph: str) -> ProfileEvent | None:
        """Return the part of an event that the limit admits; None if it admits none."""
        if self._max_events is None:
            return event
        with self._lock:
            kept, count = first_events(event, self._max_events - self._written[graph])
            self._written[graph] += count
        return kept

    def _begin(self) -> None:
        """Check the existing content, end a cut line, and write the header."""
        try:
            size = self._file.seek(0, os.SEEK_END)
            self._file.seek(0)
            start = self._file.read(len(PREFIX))
            self._file.seek(max(size - 1, 0))
            last = self._file.read(1)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if not PREFIX.startswith(start):
            raise not_a_log(self.path)
        producer = f"dovetail-core {version('dovetail-core')}"
        clock, unix = time.perf_counter() * 1e6, time.time() * 1e6
        header = LogHeader(FORMAT, VERSION, producer, clock, unix)
        self._write_line(header, before=b"" if last in (b"", b"\n") else b"\n")

    def _write_line(self, line: LogHeader | LogRecord, before: bytes = b"") -> None:
        text = before + msgspec.json.encode(line) + b"\n"
        try:
            with self._lock:
                written = self._file.write(text)
        except OSError as error:
            raise unwritable(self.path, error) from error
        if written != len(text):
            raise unwritable(
                self.path, OSError(f"only {written} of {len(text)} bytes were written")
            )


def not_a_log(path: Path) -> ContainerError:
    """Return the error of a file that is not a profile log."""
    return ContainerError(
        "the file is not a profile log", code="PROFILE_LOG_INVALID", where=str(path)
    )
