"""Detection of other work on the processors, and the reaction to it.

While a thread spins, another thread of the same team may wait for that processor. libgomp spins
much shorter as soon as it manages more threads than there are processors. An additional team, which
sleeps, has it do so while other processes compete for the processors. Meanwhile sessions use fewer
threads, too: see `threads.fewer_threads`.
"""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from typing import Any

# Computing time between two checks; a check takes some 20 us.
INTERVAL_S = 0.02
# Shares of the computing time that a thread waits for a processor. Measured on two processors: 0.38
# to 0.46 with one or two busy processes, otherwise 0.02 to 0.07.
BUSY, QUIET = 0.2, 0.1
# Checks in a row that have to agree: a short task of the system's is no contention. If contention
# returns soon after its end, the next end takes twice as many: meanwhile fewer threads compute,
# which may find free processors though others are busy.
CHECKS, MOST_CHECKS, SOON = 3, 48, 10


def waited_s() -> float | None:
    """Return how long the calling thread was ready to run but did not; None if unknown.

    Source: Linux, scheduler/sched-stats.rst, `/proc/<pid>/schedstat`.
    """
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError, NameError):  # at exit Python removes `open`
        return None


class IdleTeam:
    """A team of two OpenMP threads that sleep until it is closed.

    Args:
        openmp: The library with OpenMP's functions.
    """

    def __init__(self, openmp: Any) -> None:
        self._openmp = openmp
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sleep, name="dovetail-idle-team", daemon=True)
        self._thread.start()

    def _sleep(self) -> None:
        # the team is of the thread that asks for it, and ends with that thread
        nothing = ctypes.cast(self._openmp.omp_get_num_procs, ctypes.c_void_p)
        self._openmp.GOMP_parallel(nothing, None, ctypes.c_uint(2), ctypes.c_uint(0))
        self._end.wait()

    def close(self) -> None:
        """End the threads."""
        self._end.set()
        self._thread.join()


class Contention:
    """Watches whether others compete for the processors, over all sessions of the process.

    Args:
        openmp: The library with OpenMP's functions.
        processors: The number that libgomp sees. Only a team of as many threads is watched: a
            smaller one leaves processors to others, and libgomp would not shorten its spin.
    """

    def __init__(self, openmp: Any, processors: int) -> None:
        self.processors = processors
        self._openmp = openmp
        self._lock = threading.Lock()
        self._team: IdleTeam | None = None
        self._agreeing = 0
        self._for_end = CHECKS  # checks in a row that end the contention
        self._since_end = SOON + 1  # checks since the last one ended

    @property
    def is_busy(self) -> bool:
        """True while others are found to compete."""
        return self._team is not None

    def report(self, share: float) -> None:
        """Record the share of computing time in which a thread waited for a processor."""
        with self._lock:
            self._since_end += not self.is_busy
            differs = share < QUIET if self.is_busy else share > BUSY
            self._agreeing = self._agreeing + 1 if differs else 0
            if self._agreeing < (self._for_end if self.is_busy else CHECKS):
                return
            self._agreeing = 0
            if self._team is None:
                is_again = self._since_end <= SOON
                self._for_end = min(2 * self._for_end, MOST_CHECKS) if is_again else CHECKS
                with suppress(RuntimeError):  # the system starts no more threads
                    self._team = IdleTeam(self._openmp)
            else:
                self._team.close()
                self._team, self._since_end = None, 0

    def forget(self) -> None:
        """Reset in a forked process, where the team's threads do not exist."""
        self._lock = threading.Lock()
        self._team = None


class Watch(threading.local):
    """The calling thread's computing time and waiting time since the last check."""

    computed_s = 0.0
    waited_s: float | None = None

    def add(self, elapsed_s: float, contention: Contention) -> None:
        """Add the time of a run; check now and then how much of it was waiting."""
        self.computed_s += elapsed_s
        if self.computed_s < INTERVAL_S:
            return
        before, self.waited_s = self.waited_s, waited_s()
        if before is not None and self.waited_s is not None:
            contention.report((self.waited_s - before) / self.computed_s)
        self.computed_s = 0.0


def contention_of(openmp: Any) -> Contention | None:
    """Return the watcher for other work; None if it could not detect it or react to it.

    Args:
        openmp: The library with OpenMP's functions.
    """
    is_known = hasattr(openmp, "GOMP_parallel") and hasattr(openmp, "omp_get_num_procs")
    if not is_known or waited_s() is None:
        return None
    return Contention(openmp, int(openmp.omp_get_num_procs()))
