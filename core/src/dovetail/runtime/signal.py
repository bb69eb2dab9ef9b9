"""Signals: abort an execution from another thread, or limit its time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dovetail.errors import BackendError
from dovetail.runtime.contract import RunControl, Watch
from dovetail.runtime.enums import SignalKind
from dovetail.runtime.handle import Handle, api_call
from dovetail.runtime.measurements import Recorder


class Signal(Handle):
    """Controls one call at a time. Created by `Backend.create_signal`."""

    kind = "signal"
    invalid_code = "SIGNAL_ERROR_INVALID_HANDLE"

    def __init__(self, kind: SignalKind, timeout_us: int | None) -> None:
        super().__init__()
        if (kind is SignalKind.TIMEOUT) is (timeout_us is None) or (timeout_us or 0) < 0:
            raise BackendError(
                f"unsupported timeout {timeout_us} for a signal of kind {kind.name}",
                code="SIGNAL_ERROR_INVALID_ARGUMENT",
                hint="pass `timeout_us` >= 0 for a TIMEOUT signal, and None for others",
            )
        self.signal_kind = kind
        self.timeout_us = timeout_us
        self._lock = threading.Lock()
        self._control: RunControl | None = None

    @api_call("signal_trigger")
    def trigger(self) -> None:
        """Abort the call that the signal controls; it ends before its next step.

        Raises:
            BackendError: The signal is a timeout, or controls no call.
        """
        if self.signal_kind is not SignalKind.ABORT:
            raise BackendError(
                "a TIMEOUT signal cannot be triggered",
                code="SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE",
                hint="create a signal of kind ABORT",
            )
        with self._lock:
            if self._control is None:
                raise BackendError("the signal controls no call", code="SIGNAL_ERROR_SIGNAL_IDLE")
            self._control.stop()

    @api_call("signal_free")
    def free(self) -> None:
        """Invalidate the handle.

        Raises:
            BackendError: The signal is in use.
        """
        with self._lock:
            if self._control is not None:
                raise BackendError("the signal is in use", code="SIGNAL_ERROR_SIGNAL_IN_USE")
            self.invalidate()

    def acquire(self, watch: Watch | None, record: Recorder | None) -> RunControl:
        """Return the control of the call that the signal now controls; `release` must follow.

        Raises:
            BackendError: The signal controls another call.
        """
        self.require_alive()
        with self._lock:
            if self._control is not None:
                raise BackendError(
                    "the signal controls another call",
                    code="GRAPH_ERROR_SIGNAL_IN_USE",
                    hint="create another signal; each controls one call at a time",
                )
            self._control = RunControl(watch, self.timeout_us, record, has_signal=True)
            return self._control

    def release(self) -> None:
        """End the control of the call."""
        with self._lock:
            self._control = None


@contextmanager
def controlled(signal: Signal | None) -> Iterator[RunControl]:
    """Return the control of a call during the `with` block, under a signal if given."""
    control = take_control(signal)
    try:
        yield control
    finally:
        release_control(signal)


def take_control(
    signal: Signal | None, watch: Watch | None = None, record: Recorder | None = None
) -> RunControl:
    """Return the control of a call; `release_control` must follow.

    Raises:
        BackendError: The signal controls another call, or was freed.
    """
    if signal is None:
        return RunControl(watch, None, record)
    return signal.acquire(watch, record)


def release_control(signal: Signal | None) -> None:
    """End the control of a call."""
    if signal is not None:
        signal.release()
