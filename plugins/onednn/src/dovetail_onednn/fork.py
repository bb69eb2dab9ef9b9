"""Computing in a process that was forked.

The threads of an OpenMP team do not exist in the new process. Primitives store how many threads
they were compiled for, so one from before the fork would wait for the missing threads for ever: it
is rejected. Primitives compiled after the fork, in the thread that forked, run in one thread.
"""

from __future__ import annotations

import os

from dovetail_onednn._library import Library


class Generation:
    """Number of forks since oneDNN was loaded, of this process and of those it comes from."""

    def __init__(self) -> None:
        self.number = 0

    def watch(self, library: Library) -> None:
        """Count forks from now on."""

        def forked() -> None:
            self.number += 1
            if library.set_threads is not None:
                library.set_threads(1)
            if library.contention is not None:
                library.contention.forget()

        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(after_in_child=forked)


GENERATION = Generation()
