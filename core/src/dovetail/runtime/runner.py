"""Runs of a prepared graph: one at a time, or overlapping ones."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dovetail.errors import BackendError
from dovetail.ir import Array
from dovetail.runtime.context_tensors import SharedTensors
from dovetail.runtime.contract import Binding, Done, Prepared, RunControl
from dovetail.runtime.executions import Executions
from dovetail.runtime.interface import Interface
from dovetail.runtime.io_buffers import IoBuffers
from dovetail.runtime.plugin_errors import log_errors
from dovetail.runtime.profile import Measurement
from dovetail.runtime.queue import InProgress

log = logging.getLogger("dovetail.runtime")


class Runner:
    """Runs a prepared graph.

    Args:
        name: Name of the graph.
        shared: The context tensors that it uses.
        executions: Those of its context.

    Attributes:
        io: Buffers of its inputs and outputs.
        guards: Checks of mapped files that runs read.
        unbinds: How often buffers of earlier runs were to be dropped. An execution that began
            before the last time calls `unbind` at its end.
    """

    def __init__(self, name: str, shared: SharedTensors, executions: Executions) -> None:
        self.io = IoBuffers(Interface(name, {}, {}))
        self.guards: tuple[Callable[[], None], ...] = ()
        self._name = name
        self._shared = shared
        self._executions = executions
        self._running = threading.Lock()  # a prepared graph runs once at a time
        self._submitted = InProgress()  # of a backend that overlaps executions
        self.unbinds = 0
        self._stale: Prepared | None = None  # what is to drop the buffers of earlier runs

    def run(
        self,
        prepared: Prepared,
        inputs: dict[str, Binding],
        outputs: dict[str, Binding] | None,
        control: RunControl,
        measured: Measurement | None,
        *,
        waited_us: float | None = None,
    ) -> dict[str, Array]:
        """Run once and return the outputs.

        Args:
            prepared: The prepared graph.
            inputs: Checked buffers by tensor name.
            outputs: The same; None for new arrays.
            control: Control of the run.
            measured: Receives the times; None without a profile.
            waited_us: Time in the queue; None without one.

        Raises:
            BackendError: A node failed, or the control ended the run.
            ContainerError: A file that the run reads weights from has changed.
        """
        try:
            with self._running:
                if control.limited:
                    control.check()
                for guard in self.guards:
                    guard()
                arrays = self.io.results.arrays() if outputs is None else outputs
                shared = self._shared.outputs
                start = time.perf_counter()
                prepared.run(inputs, {**arrays, **shared} if shared else arrays, control)
                took = (time.perf_counter() - start) * 1e6
                if outputs is None:
                    outputs = self.io.results.taken(arrays)
        finally:
            if self._stale is not None:
                self._unbind_stale()
        if control.limited:  # a timeout may have been exceeded in the last step
            control.check()
        if measured is not None:
            measured.note(start, took, waited_us)
        return outputs

    def submit(
        self,
        prepared: Prepared,
        inputs: dict[str, Binding],
        outputs: dict[str, Binding] | None,
        control: RunControl,
        measured: Measurement | None,
        waited_us: float,
        done: Done,
    ) -> None:
        """Begin a run of a backend that overlaps them; `done` is called once, at its end.

        Args:
            prepared: The prepared graph.
            inputs: Checked buffers by tensor name.
            outputs: The same.
            control: Control of the run.
            measured: Receives the times; None without a profile.
            waited_us: Time in the queue.
            done: Receives the error or None.
        """
        start = time.perf_counter()
        end = threading.Lock()  # never released: an execution ends once
        written = {**(outputs or {}), **self._shared.outputs}

        def ended(error: BaseException | None) -> None:
            if not end.acquire(blocking=False):
                log.error("an execution of graph '%s' ended twice", self._name, exc_info=error)
                return
            if error is None:
                took = (time.perf_counter() - start) * 1e6
                try:
                    control.check()  # a timeout may have been exceeded in the last step
                    if measured is not None:
                        measured.note(start, took, waited_us)
                except BackendError as late:
                    error = late
            written.clear()  # the application may close its buffers at once
            if self._stale is not None:
                self._unbind_stale()
            self._submitted.leave()
            done(error)

        with self._running:
            self._submitted.enter()
        try:
            control.check()
            for guard in self.guards:
                guard()
            prepared.submit(inputs, written, control, ended)
        except BaseException as failure:  # noqa: BLE001 - travels to who waits
            ended(failure)

    def unbind(self, prepared: Prepared) -> None:
        """Drop the buffers of earlier runs, now or at the end of the run in progress."""
        self.unbinds += 1
        self._stale = prepared
        self._unbind_stale()

    def _unbind_stale(self) -> None:
        # who holds the lock meanwhile does it after releasing it
        while self._stale is not None and self._running.acquire(blocking=False):
            try:
                prepared, self._stale = self._stale, None
                if prepared is not None:
                    with log_errors(f"dropping buffers of graph '{self._name}'"):
                        prepared.unbind()
            finally:
                self._running.release()

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Wait until no execution uses the prepared graph, and let none begin meanwhile.

        Raises:
            BackendError: The call comes from an execution's `notify` while others are in progress,
                which would be a deadlock.
        """
        try:
            with self._running:
                self._wait_for_submitted()
                yield
        finally:
            if self._stale is not None:
                self._unbind_stale()

    def _wait_for_submitted(self) -> None:
        if self._submitted.count and self._executions.is_notifying:
            raise BackendError(
                "a graph cannot be finalized by `notify` while its executions are in progress",
                code="COMMON_ERROR_OPERATION_NOT_PERMITTED",
                hint="finalize it in another thread",
            )
        self._submitted.wait()
