"""The executions of a graph that are profiled: those after a delay, up to a number of them."""

from __future__ import annotations

import threading
import time

from dovetail.runtime.config import GraphConfig


class ProfilingWindow:
    """Decides which executions of a graph are profiled, by the graph's config.

    For profiles that are attached to a graph, such as a session's log; as in QNN, an execution that
    receives a profile in its call records it in any case.

    Args:
        start_delay_s: Time from the first execution until profiling begins, in seconds.
        num_executions: Maximum number of executions that are profiled; None without a limit.
    """

    def __init__(self, start_delay_s: float = 0.0, num_executions: int | None = None) -> None:
        self._delay_s = start_delay_s
        self._left = num_executions
        self._start_s: float | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, config: GraphConfig) -> ProfilingWindow:
        """Return the window that a graph's config sets."""
        return cls(config.graph_profiling_start_delay or 0.0, config.graph_profiling_num_executions)

    @property
    def is_limited(self) -> bool:
        """True if some executions may not be profiled."""
        return bool(self._delay_s) or self._left is not None

    def admits(self) -> bool:
        """Return whether an execution that begins now is profiled, and count it if so."""
        if not self.is_limited:
            return True
        now = time.monotonic()
        with self._lock:
            if self._start_s is None:
                self._start_s = now + self._delay_s
            if now < self._start_s or self._left == 0:
                return False
            if self._left is not None:
                self._left -= 1
            return True
