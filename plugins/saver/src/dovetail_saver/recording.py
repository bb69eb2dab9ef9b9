"""Recording of the calls of this process."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakSet

import msgspec

from dovetail.container import Closing
from dovetail.errors import ConfigError, DovetailError, TraceError, suggest_name
from dovetail.ir import Blob
from dovetail.plugins.hooks import hooks
from dovetail.runtime.calls import BackendReference, CallRecord, CallRecorder, Record, Role
from dovetail_saver.trace import Header, PayloadPolicy, TraceWriter
from dovetail_saver.trace.header import CALLS_NAME

_LOG = logging.getLogger(__name__)


class Recorder(Closing):
    """Records all calls of the runtime API from its creation on until it is closed.

    A recorder that fails ends its trace with the reason and reports it once; the program goes on. A
    forked process writes a trace of its own into the folder `process-PID` of the trace.

    Args:
        folder: The folder of the trace, new or empty.
        payloads: The payloads that are kept: a value of `PayloadPolicy`.

    Raises:
        ConfigError: The value of `payloads` is unknown.
        TraceError: The folder is in use.
        ContainerError: It cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str], payloads: str = "all") -> None:
        path, policy = Path(folder).absolute(), payload_policy(payloads)
        self._tape = _Tape(lambda: TraceWriter(path, Header.current(policy)), path, policy)
        self._tape.open()
        hooks.register(self._tape.hook)

    def close(self) -> None:
        """End the trace; a second call does nothing."""
        self._tape.close()


def record_process(folder: str, payloads: str) -> CallRecorder:
    """Return the hooks that record this process from its first call to its end.

    Args:
        folder: The folder of the trace; if another process has one there, or had one, its
            subfolder `process-PID`.
        payloads: A value of `PayloadPolicy`.

    Raises:
        ConfigError: The value of `payloads` is unknown.
    """
    path, policy = Path(folder).absolute(), payload_policy(payloads)
    tape = _Tape(lambda: _shared_writer(path, policy), path, policy)
    atexit.register(tape.close)
    return tape.hook


def payload_policy(text: str) -> PayloadPolicy:
    """Return the policy of a name.

    Raises:
        ConfigError: It is unknown.
    """
    known = [each.value for each in PayloadPolicy]
    if text not in known:
        raise ConfigError(
            f"unknown payloads '{text}'; expected one of {', '.join(known)}",
            code="USAGE",
            hint=suggest_name(text, known),
        )
    return PayloadPolicy(text)


class _Tape:
    """A trace that is opened by its first call.

    Attributes:
        folder: Its folder.
        hook: The hooks that write it.
    """

    def __init__(
        self, create: Callable[[], TraceWriter], folder: Path, policy: PayloadPolicy
    ) -> None:
        self._create = create
        self.folder = folder
        self._policy = policy
        self._writer: TraceWriter | None = None
        self._is_closed = False
        self.hook = _Hook(self)
        _TAPES.add(self)

    def open(self) -> TraceWriter:
        """Return the writer, which is created now if there is none."""
        if self._writer is None:
            if self._is_closed:
                raise TraceError("the trace was closed", where=str(self.folder))
            self._writer = self._create()
        return self._writer

    def add(self, blob: Blob, role: Role) -> str:
        """Write a payload, and return its key."""
        return (self._writer or self.open()).payloads.add(blob, role)

    def close(self) -> None:
        """End the trace; a second call does nothing."""
        hooks.unregister(self.hook)
        self.hook.close()
        if not self._is_closed:
            self._end("")

    def forked(self) -> None:
        """Record a forked process into a trace of its own."""
        if self._is_closed:
            return
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None
        folder, policy = self.folder, self._policy
        self._create = lambda: _shared_writer(folder, policy)
        before, self.hook = self.hook, _Hook(self)
        if hooks.is_registered(before):
            hooks.unregister(before)
            hooks.register(self.hook)

    def write(self, record: Record) -> None:
        """Write a record."""
        writer = self._writer or self.open()
        writer.write(record)
        if isinstance(record, CallRecord) and record.function == "backend_create":
            name = _backend_of(record)
            if name:
                writer.add_backend(name)

    def fail(self, error: BaseException) -> None:
        """End the trace with a mark; the hooks report the error."""
        self._end(_text(error))

    def _end(self, reason: str) -> None:
        self._is_closed = True
        if self._writer is None:
            return
        try:
            self._writer.close(reason)
        except OSError as error:
            if not reason:
                _LOG.error("the trace %s has no end: %s", self.folder, _text(error))


class _Hook(CallRecorder):
    """The hooks of a tape, with the name that the log shows."""

    def __init__(self, tape: _Tape) -> None:
        super().__init__(tape.write, tape, tape.fail)
        self.__name__ = f"recorder of {tape.folder}"


_TAPES: WeakSet[_Tape] = WeakSet()


def _forked() -> None:
    for tape in tuple(_TAPES):
        tape.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _shared_writer(folder: Path, policy: PayloadPolicy) -> TraceWriter:
    """Return the writer of a trace of one process of several.

    Raises:
        TraceError: The folder is in use for something other than traces.
        ContainerError: It cannot be written.
    """
    header = Header.current(policy)
    if not (folder / CALLS_NAME).exists():
        try:
            return TraceWriter(folder, header)
        except TraceError:
            if not (folder / CALLS_NAME).exists():  # else another process was faster
                raise
    number = 1
    while True:  # the system uses numbers again
        name = f"process-{os.getpid()}" + (f"-{number}" if number > 1 else "")
        with contextlib.suppress(TraceError):
            return TraceWriter(folder / name, header)
        number += 1


class _Named(msgspec.Struct):
    """The argument of `backend_create` that names the backend."""

    name: BackendReference


_NAMED = msgspec.json.Decoder(_Named)


def _backend_of(record: CallRecord) -> str:
    """Return the name of the backend that a call has created; empty if it failed."""
    if record.error is not None or "name" in record.unrecorded:
        return ""
    return _NAMED.decode(record.arguments).name.name


def _text(error: Any) -> str:
    message = error.message if isinstance(error, DovetailError) else str(error)
    return f"{type(error).__name__}: {message}"
