"""The executions of a context: `free` waits for those in progress and admits no others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dovetail.errors import BackendError
from dovetail.runtime.contract import RunControl


class Executions:
    """The executions of a context that have begun or wait, until the context is freed.

    Args:
        depth: Maximum number of asynchronous executions that wait.
        closed_code: Code of the error for a context that is being freed.
    """

    def __init__(self, depth: int, closed_code: str) -> None:
        self._depth = depth
        self._closed_code = closed_code
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # `close` waits for it
        self._active = 0  # asynchronous executions that have begun or wait
        # synchronous executions and their threads; added and removed without the lock
        self._callers: dict[RunControl, int] = {}
        self._queued = 0  # executions in the device's queue, or running from it
        self._notifying: set[int] = set()  # threads that are notifying the application of an end
        self._closing = False

    @property
    def is_notifying(self) -> bool:
        """True in a thread that is notifying the application of an execution's end."""
        return threading.get_ident() in self._notifying

    @contextmanager
    def open(self) -> Iterator[None]:
        """Prevent that the context is freed meanwhile.

        Raises:
            BackendError: The context is being freed.
        """
        with self._lock:
            self._require_open()
            yield

    def enter(self, execution: RunControl) -> None:
        """Register an execution in the calling thread; `leave` must follow.

        It takes no lock: `close` first rejects executions, then looks for them.

        Raises:
            BackendError: The context is being freed.
        """
        self._callers[execution] = threading.get_ident()
        if self._closing:
            self.leave(execution)
            self._require_open()

    def leave(self, execution: RunControl) -> None:
        """Unregister an execution of `enter`."""
        del self._callers[execution]
        if self._closing:
            with self._lock:
                self._changed.notify_all()

    def enter_queue(self) -> None:
        """Register an asynchronous execution; `leave_queue` and `end_queued` must follow.

        Raises:
            BackendError: The context is being freed, or the queue is full.
        """
        with self._lock:
            self._require_open()
            if self._queued >= self._depth:
                raise BackendError(
                    f"the queue is full: {self._queued} executions of the context are waiting",
                    code="GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL",
                    hint="wait for an execution to end, or increase async_execute_queue_depth",
                )
            self._active += 1
            self._queued += 1

    def leave_queue(self) -> None:
        """Remove an execution from the queue's count."""
        with self._lock:
            self._queued -= 1

    def end_queued(self) -> None:
        """Unregister an asynchronous execution after its end."""
        with self._lock:
            self._active -= 1
            self._changed.notify_all()

    @contextmanager
    def notifying(self) -> Iterator[None]:
        """Unregister an asynchronous execution after the application is notified of its end."""
        thread = threading.get_ident()
        self._notifying.add(thread)
        try:
            yield
        finally:
            self._notifying.discard(thread)
            self.end_queued()

    def close(self) -> None:
        """Admit no more executions, and wait for the end of all others than the caller's.

        Raises:
            BackendError: The call comes from an execution's `notify` while others wait, which would
                be a deadlock; or another thread is freeing the context.
        """
        # by an execution that is still registered
        notified = self.is_notifying
        with self._lock:
            self._require_open()
            if notified and not self._is_idle(notified):
                raise BackendError(
                    "a context cannot be freed by `notify` while its other executions wait",
                    code="COMMON_ERROR_OPERATION_NOT_PERMITTED",
                    hint="free it in another thread",
                )
            self._closing = True
            try:
                self._changed.wait_for(lambda: self._is_idle(notified))
            except BaseException:  # the user interrupts the wait: the context can be freed later
                self._closing = False
                raise

    def _is_idle(self, notified: bool) -> bool:
        """Return whether no other execution than the caller's is registered.

        An execution that the user interrupts may stay registered in its thread, which would
        otherwise wait for itself.
        """
        others = {*self._callers.copy().values()} - {threading.get_ident()}
        return self._active == int(notified) and not others

    def _require_open(self) -> None:
        if self._closing:
            raise BackendError(
                "the context is being freed", code=self._closed_code, hint="create another context"
            )
