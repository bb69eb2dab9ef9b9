"""Polling: waits for commands that end soon, without sleep."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

from dovetail_gpu.driver import opencl

_LONGEST_S = 5e-5
_MOST_SKIPPED = 1000
_yield: Callable[[], None] = getattr(os, "sched_yield", functools.partial(time.sleep, 0))


class Poller:
    """Waits a short time for commands, where these have ended soon before.

    A thread that sleeps is woken late: a small network on a processor takes a tenth longer. But
    where commands take long, or other processes need the processors, the checks of an event only
    delay what they wait for. So each wait in vain doubles the number of waits that are left out.
    """

    def __init__(self) -> None:
        self._skipped = 0  # waits to leave out after the next one in vain, less one
        self._left = 0  # waits to leave out now

    def wait(self, queue: Any, event: Any) -> None:
        """Return when a command has ended or failed, or soon."""
        if self._left:
            self._left -= 1
            return
        queue.flush()
        until = time.perf_counter() + _LONGEST_S
        while not has_ended(event) and time.perf_counter() < until:
            _yield()
        # also in vain if the command has ended, but another process got the processor for longer
        if time.perf_counter() < until:
            self._skipped //= 2
        else:
            self._skipped = self._left = min(2 * self._skipped + 1, _MOST_SKIPPED)


def has_ended(event: Any) -> bool:
    """Return whether a command has ended or failed."""
    status: int = event.command_execution_status
    complete: int = opencl().command_execution_status.COMPLETE
    return status <= complete  # smaller numbers are errors
