"""Runs of a graph that overlap: a few at a time, each in a thread with buffers of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dovetail.errors import BackendError
from dovetail.runtime.base import PreparedBase
from dovetail.runtime.contract import Binding, Done, RunControl

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

LANES = 2  # one transfers while the other computes


class OverlappedRuns:
    """Runs submitted executions; further ones wait for a thread.

    Args:
        lane: Returns the graph with buffers of its own.
    """

    def __init__(self, lane: Callable[[], PreparedBase]) -> None:
        self._lane = lane
        self._idle: queue.SimpleQueue[PreparedBase] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._threads: set[int] = set()
        self._lock = threading.Lock()  # of the number, and of what it says about idle graphs
        self._unbound = 0  # how often the buffers of runs were to be dropped

    def submit(
        self,
        inputs: Mapping[str, Binding],
        outputs: Mapping[str, Binding],
        control: RunControl,
        done: Done,
    ) -> None:
        """Begin an execution; see `Prepared.submit`.

        Raises:
            BackendError: The system cannot start a thread.
        """
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # few processes need it

            self._pool = ThreadPoolExecutor(LANES, "overlapped runs")
        try:
            self._pool.submit(self._run, inputs, outputs, control, done)
        except RuntimeError as error:
            raise BackendError(
                f"cannot start a thread for overlapping executions: {error}",
                code="COMMON_ERROR_RESOURCE_UNAVAILABLE",
                hint="execute synchronously, or end other threads",
            ) from error

    def forget(self) -> None:
        """Create the graphs again; called while nothing runs."""
        self._idle = queue.SimpleQueue()

    def unbind(self) -> None:
        """Drop the buffers of runs that have ended, and later those of runs in progress."""
        with self._lock:
            self._unbound += 1
            for _ in range(self._idle.qsize()):
                try:
                    graph = self._idle.get_nowait()
                except queue.Empty:  # a run has taken it
                    return
                graph.unbind()
                self._idle.put(graph)

    def close(self) -> None:
        """End the threads; called while nothing runs, perhaps by a `done` in one of them."""
        self.forget()
        if self._pool is not None:
            self._pool.shutdown(wait=threading.get_ident() not in self._threads)
            self._pool = None

    def _run(
        self,
        inputs: Mapping[str, Binding],
        outputs: Mapping[str, Binding],
        control: RunControl,
        done: Done,
    ) -> None:
        self._threads.add(threading.get_ident())
        failure: BaseException | None = None
        try:
            control.check()
            unbound = self._unbound
            try:
                graph = self._idle.get_nowait()
            except queue.Empty:
                graph = self._lane()
            try:
                graph.run(inputs, outputs, control)
            finally:
                with self._lock:
                    if self._unbound != unbound:
                        graph.unbind()
                    self._idle.put(graph)
        except BaseException as error:  # noqa: BLE001 - travels to who waits
            failure = error
        done(failure)
