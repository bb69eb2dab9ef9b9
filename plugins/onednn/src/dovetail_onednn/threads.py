"""Threads: how many compute, and whether other Python threads may run meanwhile.

Letting other Python threads run costs a wait of up to 5 ms when the call returns, if one of them is
busy: more than most calls take. Short calls therefore keep the interpreter to themselves, unless
another session wants to compute too.
"""

from __future__ import annotations

import enum
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dovetail_onednn._library import Library, library
from dovetail_onednn.contention import Watch
from dovetail_onednn.fork import GENERATION
from dovetail_onednn.openmp import SPIN_COUNT, is_wait_chosen

# Products from which on two threads are faster than one. On two cores, 20 steps of an LSTM took
# 0.011 ms in one thread and 0.040 in two where a step had 8,000 products, 0.078 and 0.089 with
# 131,000, 0.33 and 0.25 with 524,000; a matmul of 262,000 took 0.0049 ms and 0.0059.
LEAST_SHARED = 1 << 18
# Elements from which on they are. Relu of 4,000 took 1.7 us in one thread and 2.4 in two, of 16,000
# 2.4 and 2.7, of 64,000 6.8 and 4.7.
LEAST_SHARED_ELEMENTS = 1 << 15


class ReleaseGil(enum.Enum):
    """When calls let other Python threads run; AUTO: long calls, and all while others compute."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


# Sessions that compute at this moment; adding and discarding need no lock.
ACTIVE: set[object] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ACTIVE.clear)  # their threads do not exist there

_WATCH = Watch()


class Activity:
    """Counts a session among those that compute, while it is entered; once at a time."""

    def __enter__(self) -> None:
        ACTIVE.add(self)

    def __exit__(self, *error: object) -> None:
        ACTIVE.discard(self)


class Team(threading.local):
    """Number of threads for the calling thread's work; OpenMP stores it per calling thread.

    Attributes:
        own: The number; 0 while none was set.
        is_reduced: Whether steps use `fewer_threads`, because others compete for the processors.
    """

    own = 0
    is_reduced = False


TEAM = Team()


def set_threads(count: int) -> None:
    """Set the number of threads for the calling thread's work; 0 changes nothing.

    In a forked process the number is always 1. `Team.own` does not change.
    """
    found = library()
    if not count or found.set_threads is None:
        return
    TEAM.own = TEAM.own or int(found.get_threads())
    found.set_threads(1 if GENERATION.number else count)


def current_threads() -> int:
    """Return how many threads the calling thread's work uses; 0 where that is not known."""
    found = library()
    if found.set_threads is None:
        return 0
    set_threads(TEAM.own)  # a primitive may have left another number
    return int(found.get_threads())


def fewer_threads(count: int) -> int:
    """Return how many threads compute in place of `count` while others compete for the processors.

    Two threads of a step wait for each other at its end: if others run on their processors, that
    takes longer than one thread needs for the whole step. 0 if a session of that many threads does
    not watch for other work.
    """
    watched = library().contention
    return count // 2 if watched is not None and count >= max(2, watched.processors) else 0


class threads:  # noqa: N801 - reads as a verb: `with threads(1)`
    """Sets the number of threads while it is entered, once at a time.

    Args:
        count: The number; 0 changes nothing, None is the default.
    """

    __slots__ = ("_before", "_count", "_get", "_set")

    def __init__(self, count: int | None) -> None:
        found = library()
        self._count = found.own_threads if count is None else count
        self._get, self._set = found.get_threads, found.set_threads if self._count else None
        self._before = (0, 0)

    def __enter__(self) -> None:
        if self._set is None:
            return
        current = self._get()
        self._before = TEAM.own, current
        TEAM.own = own = 1 if GENERATION.number else self._count
        if current != own:
            self._set(own)

    def __exit__(self, *error: object) -> None:
        if self._set is None:
            return
        own, TEAM.own = TEAM.own, self._before[0]
        before = 1 if GENERATION.number else self._before[1]
        if own != before or self._get() != before:  # a primitive may have left another number
            self._set(before)


class Computing(threads):
    """Sets a session's number of threads and counts the session among those that compute.

    A session with a thread for each processor also watches whether others compete for these, and
    meanwhile uses `fewer_threads`.
    """

    __slots__ = ("_contention", "_started")

    def __init__(self, count: int | None) -> None:
        threads.__init__(self, count)
        self._contention = library().contention if fewer_threads(self._count) else None
        self._started = 0.0

    def __enter__(self) -> None:
        ACTIVE.add(self)
        threads.__enter__(self)  # at every run: `super` would take as long again
        if self._contention is not None:
            self._started = time.perf_counter()
            TEAM.is_reduced = self._contention.is_busy

    def __exit__(self, *error: object) -> None:
        if self._contention is not None:
            TEAM.is_reduced = False
            if not GENERATION.number:
                _WATCH.add(time.perf_counter() - self._started, self._contention)
        threads.__exit__(self)
        ACTIVE.discard(self)


def threads_note(found: Library) -> str:
    """Return advice on how the library's threads wait, for `doctor`; an empty text without any."""
    if not found.openmp_came_first or is_wait_chosen():
        return ""
    return (
        "another package loaded OpenMP first, whose threads spin for long: on a busy machine, set "
        f"GOMP_SPINCOUNT={SPIN_COUNT} before Python starts"
    )


@contextmanager
def threads_for(products: int) -> Iterator[None]:
    """Describe primitives for one thread while this is entered, if their work is little.

    On a busy machine, waiting for a second thread takes much longer than little work.

    Args:
        products: Number of products between two points where threads wait.
    """
    with threads(1 if products < LEAST_SHARED else 0):
        yield
