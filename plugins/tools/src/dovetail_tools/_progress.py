"""Progress: a bar on a terminal and nowhere else, and a notice for hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from dovetail.plugins.events import Progress
from dovetail.plugins.hooks import hooks

Advance = Callable[[], None]


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Advance]:
    """Gives what is to be called after each inference; hooks are told, and a terminal shows a bar.

    Args:
        label: What is being run.
        total: How many there will be, where that is known.
    """
    counted = count(1)

    def tell() -> None:
        done = next(counted)
        if hooks.active:
            hooks.progress(Progress(label, done, total, "inferences"))

    if not sys.stderr.isatty():
        yield tell
        return
    # imported here: only a terminal needs it
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)

        def advance() -> None:
            tell()
            bar.advance(task)

        yield advance
