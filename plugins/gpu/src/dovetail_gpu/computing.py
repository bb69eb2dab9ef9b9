"""The computing of a graph: its queue on a device, and the wait for what it has begun.

Kernels are functions of a call alone. They reach the engine for which a graph is prepared, and the
graph's settings, by `current()`.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dovetail.errors import BackendError
from dovetail.ir import Array
from dovetail.runtime.contract import RunControl
from dovetail_gpu.driver import Reported, opencl
from dovetail_gpu.options import GpuGraph, PrecisionMode
from dovetail_gpu.polling import Poller, has_ended

if TYPE_CHECKING:  # it refers to this module
    from dovetail_gpu.engine import ClEngine
    from dovetail_gpu.space import DeviceBlock

_SHORTEST_S, _LONGEST_S = 2e-5, 2e-3  # between two checks of a queue
PATIENCE_S = 30.0  # with a device that still runs an execution that was stopped
# What commands in progress use whose end no run has seen. It stays there if their computing is
# freed: a release would wait for them, and the device may still read arrays of the application.
_LEFT_BEHIND: list[list[Any]] = []


class Computing:
    """Engine, settings and queue of a graph, the current ones of a thread that has entered it.

    Commands run in order. The end of the `with` block waits for them, unless it raises an error. It
    can be entered again, but not by two threads at a time.

    Attributes:
        engine: The engine.
        config: Settings of the graph.
        choices: Variants of kernels by the work, of the graph or of an image that it comes from.
    """

    def __init__(self, engine: ClEngine, config: GpuGraph) -> None:
        self.engine, self.config = engine, config
        self.choices: dict[str, str] = {}
        self._queue: Any = None
        self._last: Any = None  # the event of the last command begun; None if all have ended
        self._poller = Poller()
        self._control: RunControl | None = None
        self._events: list[Any] = []  # of what was begun since `settle`
        self._kept: list[Any] = []  # what commands in progress use
        self._stopped: Any = None  # the end of commands that an execution has stopped waiting for

    @property
    def queue(self) -> Any:
        """The queue of pyopencl, created when it is first needed."""
        if self._queue is None:
            self._queue = self.engine.new_queue()
        return self._queue

    def another(self) -> Computing:
        """Return one for the same graph with a queue of its own, for runs that overlap."""
        return Computing(self.engine, self.config)

    def __enter__(self) -> None:
        _CURRENT.stack = [*getattr(_CURRENT, "stack", ()), self]

    def __exit__(self, kind: object, *_: object) -> None:
        _CURRENT.stack = _CURRENT.stack[:-1]
        try:
            if kind is None:
                self.finish()
            else:  # the error is more important than what the device does
                self._leave_behind()
        finally:
            self._control = None

    def begin(self, control: RunControl) -> None:
        """Begin a run, whose control ends the waits for the device; see `Engine.begin`.

        Raises:
            BackendError: The device still runs an execution that was stopped.
        """
        self._control = control
        if self._stopped is not None:
            with Reported(self.engine.device, "end the previous run"):
                self._await_end(self._stopped, time.monotonic() + PATIENCE_S)
        self._forget()

    def enqueue(self, kernel: Any, size: tuple[int, ...], group: tuple[int, ...] | None) -> None:
        """Begin to run a kernel."""
        self._last = opencl().enqueue_nd_range_kernel(self.queue, kernel, size, group)
        self._events.append(self._last)

    def send(self, array: Array, block: DeviceBlock, offset: int) -> None:
        """Copy an array of bytes, which does not change before the end, into part of a block."""
        if self._last is None and (host := block.host) is not None:
            host[offset : offset + array.nbytes] = array
            return
        self._last = opencl().enqueue_copy(
            self.queue, block.buffer, array, dst_offset=offset, is_blocking=False
        )
        self.keep(self._last)

    def receive(self, array: Array, block: DeviceBlock, offset: int) -> None:
        """Copy part of a block into an array of bytes, after all that was begun before.

        A run that may be stopped waits for that first: the copy itself cannot be stopped.
        """
        host = block.host
        if self._may_stop or host is not None:
            self.finish()
        if host is None:
            opencl().enqueue_copy(
                self.queue, array, block.buffer, src_offset=offset, is_blocking=True
            )
            self._forget()
        else:
            array[:] = host[offset : offset + array.nbytes]

    def keep(self, used: Any) -> None:
        """Keep an object until the commands in progress have ended."""
        self._kept.append(used)

    def finish(self) -> None:
        """Wait for all that was begun.

        Raises:
            BackendError: It failed, or the control of the run ends the wait.
        """
        if self._last is None:
            return
        with Reported(self.engine.device, "run the graph"):
            if self._may_stop:
                self._leave_behind()
                self._await_end(self._last, None)
            else:
                self._poller.wait(self.queue, self._last)
            self._last.wait()  # raises its error
        self._forget()

    def settle(self) -> float | None:
        """Wait for all that was begun and return its microseconds; see `PlanPrepared.settle`."""
        begun, self._events = self._events, []
        self.finish()
        if not begun:
            return None
        times = [(int(event.profile.start), int(event.profile.end)) for event in begun]
        return sum(end - start for start, end in times) / 1e3

    def stores_half(self, *, given: bool) -> bool:
        """Return whether a tensor's real numbers are stored in half precision.

        Args:
            given: Whether the tensor's type in the graph is half precision.
        """
        mode = self.config.precision_mode
        return given if mode is PrecisionMode.USER_PROVIDED else mode is not PrecisionMode.FP32

    @property
    def _may_stop(self) -> bool:
        """True if the control of the run can end a wait."""
        return self._control is not None and self._control.may_stop

    def _await_end(self, event: Any, until: float | None) -> None:
        """Wait until a command has ended or failed, while the control allows it.

        Args:
            event: The event of the command; its queue was flushed.
            until: Time on the clock `time.monotonic` at which the device is given up.
        """
        pause = _SHORTEST_S
        while not has_ended(event):
            if self._control is not None:
                self._control.check()
            if until is not None and time.monotonic() > until:
                raise BackendError(
                    f"{self.engine.device} does not end an execution that was stopped",
                    hint="free the session and create another; see the driver's log for the cause",
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_S)

    def _leave_behind(self) -> None:
        """Let the next run wait for commands in progress."""
        if self._last is None or self._stopped is not None:
            return
        _LEFT_BEHIND.append(self._kept)
        self._stopped = self._last
        with suppress(opencl().Error):  # a lost device, as the next run will find
            self.queue.flush()

    def _forget(self) -> None:
        """Release what ended commands used."""
        self._last = self._stopped = None
        _LEFT_BEHIND[:] = [kept for kept in _LEFT_BEHIND if kept is not self._kept]
        self._events.clear()
        self._kept.clear()


_CURRENT = threading.local()


def current() -> Computing:
    """Return engine and settings of the graph that is prepared or runs in this thread."""
    stack: list[Computing] = getattr(_CURRENT, "stack", [])
    if not stack:
        raise AssertionError("no graph is prepared in this thread")
    return stack[-1]


def finish_current() -> None:
    """Wait for what the graph of this thread has begun, if there is one."""
    stack: list[Computing] = getattr(_CURRENT, "stack", [])
    if stack:
        stack[-1].finish()


def settle() -> float | None:
    """Wait for the graph that runs in this thread; see `PlanPrepared.settle`."""
    return current().settle()


def begin(control: RunControl) -> None:
    """Begin a run in this thread; see `Engine.begin`."""
    current().begin(control)
