"""When replayed calls are made, and from which threads.

One thread makes the calls in the order in which they returned. With the recorded threads, calls are
made in the order in which they began; each waits for those that had returned before, so that calls
overlap where the recorded ones did.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from dovetail.errors import TraceError
from dovetail.runtime.calls import CallRecord
from dovetail_saver.choices import Timing
from dovetail_saver.replay.playing import Step
from dovetail_saver.trace import Entry

_AHEAD = 1024  # records that are read before the one that began first is made
_MAX_THREADS = 256


class Clock:
    """Waits for the recorded time of calls."""

    def __init__(self, timing: Timing) -> None:
        self._waits = timing is Timing.AS_RECORDED
        self._zero: float | None = None

    def wait(self, entry: Entry) -> None:
        """Wait until the time at which a call began after the first one."""
        if not self._waits or not isinstance(entry.record, CallRecord):
            return
        due, now = entry.record.start_ns / 1e9, time.monotonic()
        if self._zero is None:
            self._zero = now - due
        if (rest := self._zero + due - now) > 0:
            time.sleep(rest)


def run_in_order(
    entries: Iterable[Entry],
    step: Callable[[Entry], Step],
    take: Callable[[Step], bool],
    clock: Clock,
) -> None:
    """Make calls in the order of their records.

    Args:
        entries: The records.
        step: Makes a call.
        take: Receives each step; returns whether to stop.
        clock: Waits for the time of a call.
    """
    for entry in entries:
        clock.wait(entry)
        if take(step(entry)):
            return


def run_in_threads(
    entries: Iterable[Entry],
    step: Callable[[Entry], Step],
    take: Callable[[Step], bool],
    clock: Clock,
) -> None:
    """Make calls from as many threads as recorded.

    Args:
        entries: The records.
        step: Makes a call; runs in the threads.
        take: Receives each step, in its thread; returns whether to stop.
        clock: Waits for the time of a call.

    Raises:
        TraceError: A record is invalid, or too many threads make calls at once.
    """
    with ExitStack() as stack:
        threads = _Threads(stack)
        running: list[tuple[int, int, Future[bool]]] = []  # by the end of the recorded call
        for order, (start, end, entry) in enumerate(_by_start(entries)):
            while running and running[0][0] <= start:
                if heapq.heappop(running)[2].result():
                    return
            clock.wait(entry)
            future = threads.submit(lambda one: take(step(one)), entry)
            heapq.heappush(running, (end, order, future))
        for _, _, future in sorted(running):
            if future.result():
                return


@dataclass(slots=True)
class _Thread:
    executor: ThreadPoolExecutor
    last: Future[bool] | None = None  # its last call


class _Threads:
    """Threads by their recorded numbers; those of ended threads are used again when many are."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._threads: dict[int, _Thread] = {}  # the last used ones last

    def submit(self, make: Callable[[Entry], bool], entry: Entry) -> Future[bool]:
        """Make a call in its thread.

        Raises:
            TraceError: There are too many threads.
        """
        number = entry.record.thread
        thread = self._threads.pop(number, None) or self._new(entry)
        self._threads[number] = thread
        thread.last = thread.executor.submit(make, entry)
        return thread.last

    def _new(self, entry: Entry) -> _Thread:
        if len(self._threads) < _MAX_THREADS:
            return _Thread(self._stack.enter_context(ThreadPoolExecutor(1)))
        for number, thread in self._threads.items():
            if thread.last is None or thread.last.done():
                return self._threads.pop(number)
        raise TraceError(
            f"more than {_MAX_THREADS} threads of the trace make calls at once",
            where=entry.where,
            hint="replay it with one thread",
        )


def _by_start(entries: Iterable[Entry]) -> Iterator[tuple[int, int, Entry]]:
    """Yield start, end and record of each call, in the order of the starts."""
    waiting: list[tuple[int, int, int, Entry]] = []
    latest = 0  # the end of the last call so far
    for order, entry in enumerate(entries):
        record = entry.record
        if isinstance(record, CallRecord):
            start, end = record.start_ns, record.start_ns + record.duration_ns
        else:
            start = end = latest
        latest = max(latest, end)
        heapq.heappush(waiting, (start, order, end, entry))
        if len(waiting) > _AHEAD:
            first = heapq.heappop(waiting)
            yield first[0], first[2], first[3]
    while waiting:
        first = heapq.heappop(waiting)
        yield first[0], first[2], first[3]
