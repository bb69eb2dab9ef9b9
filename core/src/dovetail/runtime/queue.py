"""The queue of asynchronous executions: one thread per device, higher priorities first."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable

from dovetail.errors import BackendError

log = logging.getLogger("dovetail.runtime")


# In the order in which they run: by minus the priority, then by arrival; no two are equal in both.
_Task = tuple[int, int, Callable[[], None]]


class ExecutionQueue:
    """Runs tasks one at a time in a thread that exists only while there are tasks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: list[_Task] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, run: Callable[[], None], priority: int) -> None:
        """Add a task.

        Raises:
            BackendError: The system cannot start a thread; the task is not added.
        """
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=self.name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise BackendError(
                        f"cannot start a thread for asynchronous executions: {error}",
                        code="COMMON_ERROR_RESOURCE_UNAVAILABLE",
                        hint="execute synchronously, or end other threads",
                    ) from error
                self._thread = thread
            heapq.heappush(self._tasks, (-priority, next(self._numbers), run))

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._tasks:
                    self._thread = None
                    return
                _, _, run = heapq.heappop(self._tasks)
            try:
                run()
            except BaseException:  # the thread must continue with the tasks that wait
                log.exception("a task of %s failed", self.name)


class InProgress:
    """The submitted executions of a graph that have not ended.

    Attributes:
        count: Their number.
    """

    def __init__(self) -> None:
        self.count = 0
        self._ended = threading.Condition()

    def enter(self) -> None:
        """Count an execution; `leave` must follow."""
        with self._ended:
            self.count += 1

    def leave(self) -> None:
        """Count the end of an execution."""
        with self._ended:
            self.count -= 1
            self._ended.notify_all()

    def wait(self) -> None:
        """Wait until all have ended."""
        with self._ended:
            self._ended.wait_for(lambda: not self.count)


class Execution:
    """The future of an asynchronous execution."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """True if it has ended, with or without an error."""
        return self._done.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the execution has ended.

        Args:
            timeout_s: Maximum time to wait in seconds; None for no limit.

        Returns:
            Whether it ended.

        Raises:
            DovetailError: The execution's own error.
        """
        if not self._done.wait(timeout_s):
            return False
        if self._error is not None:
            raise self._error
        return True

    def finish(self, error: BaseException | None) -> None:
        """Mark the execution as ended."""
        self._error = error
        self._done.set()
