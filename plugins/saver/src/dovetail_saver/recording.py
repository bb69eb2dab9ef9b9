"""Recording of the calls of this process."""

from __future__ import annotations

import atexit
import os
from pathlib import Path

from dovetail.container import Closing
from dovetail.errors import ConfigError, suggest_name
from dovetail.plugins.hooks import hooks
from dovetail.runtime.calls import CallRecorder
from dovetail_saver.tape import Tape
from dovetail_saver.trace import PayloadPolicy, require_new


class Recorder(Closing):
    """Records all calls of the runtime API from its creation on until it is closed.

    A recorder that fails ends its trace with the reason and reports it once; the program goes on. A
    forked process writes a trace of its own into the folder `process-PID` of the trace.

    Args:
        folder: The folder of the trace, new or empty.
        payloads: The payloads that are kept: a value of `PayloadPolicy`.

    Raises:
        ConfigError: The value of `payloads` is unknown, or the folder is in use.
        TraceError: The folder cannot be read.
        ContainerError: It cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str], payloads: str = "all") -> None:
        path, policy = Path(folder).absolute(), payload_policy(payloads)
        require_new(path)
        self._tape = Tape(path, policy)
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
    tape = Tape(Path(folder).absolute(), payload_policy(payloads))
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
