"""Traces that hooks write: opened by their first call, ended once, one for each process."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakSet

from dovetail.errors import ConfigError, DovetailError, TraceError
from dovetail.ir import Blob
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.runtime import Backend
from dovetail.runtime.calls import CallRecorder, Role
from dovetail_saver.trace import Header, PayloadPolicy, TraceWriter, require_new
from dovetail_saver.trace.header import CALLS_NAME
from dovetail_saver.trace.payloads import WANTED
from dovetail_saver.trace.start import TraceStart

_LOG = logging.getLogger(__name__)
_NUMBERS = itertools.count(1)


class TapeHook(CallRecorder):
    """The hooks of a tape, with the name that the log shows; pluggy wants another for each."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape.write, tape, tape.fail, tape.is_last)
        self.__name__ = f"recorder {next(_NUMBERS)} of {tape.folder}"
        self._tape = tape

    def _end(self, call: ApiCall) -> None:
        super()._end(call)
        if call.function == "backend_create" and isinstance(call.result, Backend):
            self._tape.add_backend(call.result.name)


class Tape:
    """A trace that is opened by its first call.

    If it cannot be continued, it ends with the reason, and its hooks are detached with a line in
    the log.

    Args:
        folder: The folder of the trace. If it has one already, the trace is in `process-PID` in it.
        policy: The payloads that are kept.
        make_hook: Returns the hooks that write it.
        finished: Receives the folder of a trace that was closed.

    Attributes:
        folder: The folder.
        hook: The hooks.
        wanted: Whether payloads are recorded, or at least their keys; by role.
    """

    def __init__(
        self,
        folder: Path,
        policy: PayloadPolicy,
        make_hook: Callable[[Tape], CallRecorder] = TapeHook,
        finished: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self.folder = folder
        self._policy, self.wanted = policy, WANTED[policy]
        self._make_hook = make_hook
        self._finished = finished
        self._writer: TraceWriter | None = None
        self._older: list[TraceStart] = []  # the records of the processes it was forked from
        self._is_closed = False
        self.hook = make_hook(self)
        _TAPES.add(self)

    def open(self) -> TraceWriter:
        """Return the writer, which is created now if there is none.

        Raises:
            ConfigError: The folder is in use for something other than traces.
            ContainerError: It cannot be written.
        """
        if self._writer is None:
            self._writer = _new_writer(self.folder, self._policy)
        return self._writer

    def add(self, blob: Blob, role: Role) -> str:
        """Write a payload, and return its key."""
        return (self._writer or self.open()).payloads.add(blob, role)

    def write(self, line: bytes) -> None:
        """Write the line of a record."""
        (self._writer or self.open()).write_record(line)

    def is_last(self, line: bytes) -> bool:
        """Return whether a line is the last one that was written."""
        return self._writer is not None and self._writer.is_last(line)

    def add_backend(self, name: str) -> None:
        """Note the name of a backend in use."""
        (self._writer or self.open()).add_backend(name)

    def fail(self, error: BaseException) -> None:
        """End the trace with a mark; the hooks report the error."""
        self._end(_text(error))

    def close(self) -> None:
        """End the trace; a second call does nothing."""
        hooks.unregister(self.hook)
        self.hook.close()
        if not self._is_closed:
            self._end("")

    def restart(self) -> None:
        """Record a process that was forked into a trace of its own.

        The records of its parent are copied into it if it uses handles of the parent.
        """
        if self._is_closed:
            return
        if self._writer is not None:
            self._older.append(self._writer.start)
            self._writer.abandon()
            self._writer = None
        self.hook.forked(self._inherit if self._older else None)

    def _inherit(self) -> None:
        """Write the records of the parent.

        Raises:
            TraceError: They cannot be read.
            OSError: They cannot be written.
            ContainerError: The trace cannot be created.
        """
        try:
            writer = self.open()
            while self._older:
                self._older[0].copy_to(writer)
                del self._older[0]
        except TraceError as error:
            raise TraceError(
                "the process uses handles of the process that forked it, whose trace cannot be "
                f"read: {error}",
            ) from error

    def _end(self, reason: str) -> None:
        self._is_closed = True
        if self._writer is None:
            return
        try:
            self._writer.close(reason)
            if not reason:
                self._finished(self._writer.folder)
        except (OSError, DovetailError) as error:
            if not reason:
                _LOG.error("the trace %s is not complete: %s", self.folder, _text(error))


_TAPES: WeakSet[Tape] = WeakSet()


def _restart_tapes() -> None:
    for tape in tuple(_TAPES):
        tape.restart()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_tapes)


def require_usable(folder: Path) -> None:
    """Raise unless a tape can use a folder: it is new or empty, or has a trace.

    Raises:
        ConfigError: It cannot.
    """
    if not (folder / CALLS_NAME).exists():
        require_new(folder)


def _new_writer(folder: Path, policy: PayloadPolicy) -> TraceWriter:
    """Return the writer of a new trace in a folder, or in `process-PID` in it.

    Raises:
        ConfigError: The folder is in use for something other than traces.
        ContainerError: It cannot be written.
    """
    header, path, number = Header.current(policy), folder, 0
    while True:
        try:
            return TraceWriter(path, header)
        except ConfigError:
            require_usable(folder)
        while not number or path.exists():  # the system uses the numbers of processes again
            number += 1
            path = folder / (f"process-{os.getpid()}" + (f"-{number}" if number > 1 else ""))


def _text(error: Any) -> str:
    message = error.message if isinstance(error, DovetailError) else str(error)
    return f"{type(error).__name__}: {message}"
