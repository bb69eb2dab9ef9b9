"""What may still run in a process after it was forked.

The threads of an OpenMP team do not come along. Primitives remember how many threads they were made
for, so one made before the fork would wait for ever for the others: it is refused. What is made
after it, in the thread that forked, gets along with one thread.
"""

from __future__ import annotations

import os

from dovetail_onednn._library import Library


class Generation:
    """How often this process and those it comes from were forked since oneDNN was loaded."""

    def __init__(self) -> None:
        self.number = 0

    def watch(self, library: Library) -> None:
        """Notices forks from now on."""

        def forked() -> None:
            self.number += 1
            if library.set_threads is not None:
                library.set_threads(1)

        if hasattr(os, "register_at_fork"):  # not everywhere is there something to fork
            os.register_at_fork(after_in_child=forked)


GENERATION = Generation()
