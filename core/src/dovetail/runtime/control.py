"""Control of an execution: its watch, its measurements, and whether it must stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from dovetail.errors import BackendError
from dovetail.ir import Array
from dovetail.runtime.measurements import Counter, EventType, ProfileEvent, Recorder


@runtime_checkable
class Watch(Protocol):
    """Receives each step of a watched run."""

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        """Receive a step that has ended.

        Args:
            nodes: Names of the nodes that it ran; several if they are fused.
            microseconds: Its duration.
            outputs: Stored values of the tensors that it wrote; valid only until this method
                returns.
        """


class RunControl:
    """Control of an execution: whether it must stop, and who watches and measures it.

    Args:
        watch: Receives each step, or None.
        timeout_us: Microseconds after which the run stops, or None.
        record: Receives measurements, or None.
        has_signal: Whether a signal may stop it.

    Attributes:
        watch: The watch, or None.
        record: The recorder of a run with a profile, or None. A backend calls it with events of its
            own; they become parts of the run's event.
        limited: Whether the run may have to stop; if not, `check` need not be called.
        may_stop: Whether the run may have to stop now or later: it has a timeout or a signal.
    """

    __slots__ = ("_deadline", "_stopped", "limited", "may_stop", "record", "watch")

    def __init__(
        self,
        watch: Watch | None = None,
        timeout_us: int | None = None,
        record: Recorder | None = None,
        *,
        has_signal: bool = False,
    ) -> None:
        self.watch = watch
        self.record = record
        self._stopped = False
        self.limited = timeout_us is not None
        self.may_stop = has_signal or self.limited
        self._deadline = None if timeout_us is None else time.monotonic_ns() + timeout_us * 1000

    def stop(self) -> None:
        """Request the run to end before its next step; callable from any thread."""
        self._stopped = self.limited = self.may_stop = True

    @property
    def reports_steps(self) -> bool:
        """True if each step is to be reported to `step_finished`."""
        return self.watch is not None or (self.record is not None and self.record.has_nodes)

    def step_finished(
        self,
        nodes: tuple[str, ...],
        start_us: float,
        microseconds: float,
        outputs: Callable[[], Mapping[str, Array]],
        counters: tuple[Counter, ...] = (),
    ) -> None:
        """Report a step to the watch and the profile, whichever the run has.

        Args:
            nodes: Names of the nodes that it ran; several if they are fused.
            start_us: Time of its start on the clock of `time.perf_counter`.
            microseconds: Its duration.
            outputs: Returns the stored values of the tensors that it wrote; called only for a
                watch.
            counters: Other quantities, for a profile.
        """
        if self.record is not None and self.record.has_nodes:
            name = " + ".join(nodes)
            event = ProfileEvent(
                EventType.NODE, name, microseconds, start_us=start_us, counters=counters
            )
            self.record(event)
        if self.watch is not None:
            self.watch.step_finished(nodes, microseconds, outputs())

    def check(self) -> None:
        """Raise if the run must end; called between steps.

        Raises:
            BackendError: GRAPH_ERROR_ABORTED or GRAPH_ERROR_TIMED_OUT.
        """
        if self._stopped:
            raise BackendError("the execution was aborted", code="GRAPH_ERROR_ABORTED")
        if self._deadline is not None and time.monotonic_ns() > self._deadline:
            raise BackendError(
                "the timeout was exceeded",
                code="GRAPH_ERROR_TIMED_OUT",
                hint="allow more time, or make a profile to see where it goes",
            )
