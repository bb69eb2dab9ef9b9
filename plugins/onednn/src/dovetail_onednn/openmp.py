"""OpenMP's runtime library, libgomp: how long its threads spin, set before it is loaded.

A thread that waits for another one spins before it sleeps. By default libgomp spins for about 3 ms,
which on a busy machine takes the processor from the thread that is waited for. Sleeping at once
costs some 30 us a wake-up, which is longer than many steps of a network take.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

SONAME = "libgomp.so.1"
# Iterations before a waiting thread sleeps, 15 to 50 ns each: longer than Python takes from one
# step to the next, and much less than a scheduler's time slice.
SPIN_COUNT = "5000"
# Variables by which users choose how threads wait.
WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def is_loaded() -> bool:
    """Return whether libgomp is in this process already; False where that cannot be known."""
    if not hasattr(os, "RTLD_NOLOAD"):
        return False
    try:
        ctypes.CDLL(SONAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    return True


def is_wait_chosen() -> bool:
    """Return whether the user's environment sets how threads wait."""
    return any(name in os.environ for name in WAIT_VARIABLES)


@contextmanager
def short_spin() -> Iterator[bool]:
    """Make a libgomp that is loaded inside this context spin briefly; a user's choice wins.

    libgomp reads the environment once, while it is loaded. The variable is removed afterwards, so
    that processes started later do not inherit it.

    Yields:
        Whether libgomp was in the process before, with the settings that it read then.
    """
    if is_loaded() or is_wait_chosen():
        yield is_loaded()
        return
    os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
    try:
        yield False
    finally:
        del os.environ["GOMP_SPINCOUNT"]
