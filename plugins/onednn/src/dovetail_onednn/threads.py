"""Threads: how many the library computes with, and whether others may run Python meanwhile.

Letting other Python threads run costs a wait of up to 5 ms when the call returns, if one of them is
busy: more than most calls take. So short calls keep the interpreter to themselves, unless another
session wants to compute too.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dovetail_onednn._library import library
from dovetail_onednn.fork import GENERATION

# Products from which on two threads are faster than one. On two cores, 20 steps of an LSTM took
# 0.011 ms in one thread and 0.040 in two where a step had 8,000 products, 0.078 and 0.089 with
# 131,000, 0.33 and 0.25 with 524,000; a matmul of 262,000 took 0.0049 ms and 0.0059.
LEAST_SHARED = 1 << 18
# Elements from which on they are. Relu of 4,000 took 1.7 us in one thread and 2.4 in two, of 16,000
# 2.4 and 2.7, of 64,000 6.8 and 4.7.
LEAST_SHARED_ELEMENTS = 1 << 15


class ReleaseGil(enum.Enum):
    """When a call lets other Python threads run; AUTO: long ones, and all while others compute."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Activity:
    """How many sessions compute at this moment; entered by each while it does.

    Attributes:
        count: Their number.
    """

    def __init__(self) -> None:
        self.count = 0
        self._counting = threading.Lock()

    def __enter__(self) -> None:
        with self._counting:
            self.count += 1

    def __exit__(self, *error: object) -> None:
        with self._counting:
            self.count -= 1


ACTIVITY = Activity()


def use_threads(count: int | None) -> None:
    """Sets how many threads compute what the calling thread prepares and executes from now on.

    OpenMP keeps the number for each calling thread. In a process that was forked it stays 1.

    Args:
        count: The number; None is the library's own.
    """
    found = library()
    if found.set_threads is not None:
        found.set_threads(1 if GENERATION.number else count or found.own_threads)


def current_threads() -> int:
    """Gives how many threads the calling thread's work uses; 0 where that is not known."""
    found = library()
    return 0 if found.set_threads is None else int(found.get_threads())


class threads:  # noqa: N801 - reads as a verb: `with threads(1)`
    """Has so many threads while it is entered; 0 changes nothing."""

    __slots__ = ("_before", "_count")

    def __init__(self, count: int) -> None:
        self._count = count
        self._before = 0

    def __enter__(self) -> None:
        found = library()
        if self._count and found.set_threads is not None:
            self._before = int(found.get_threads())
            if self._before != self._count:
                found.set_threads(self._count)

    def __exit__(self, *error: object) -> None:
        if self._before and self._before != self._count:
            library().set_threads(self._before)


@contextmanager
def threads_for(products: int) -> Iterator[None]:
    """Lets what is described while this is entered have one thread if it does too little for two.

    Beside other busy processes a second thread is waited for much longer than little work takes.

    Args:
        products: How many numbers are multiplied between two points where threads wait.
    """
    with threads(1 if products < LEAST_SHARED else 0):
        yield
