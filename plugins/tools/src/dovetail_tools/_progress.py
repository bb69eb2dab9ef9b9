"""Progress on a terminal, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[], None]


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Advance]:
    """Gives what is to be called after each inference.

    Args:
        label: Of the bar.
        total: How many there will be, where that is known.
    """
    if not sys.stderr.isatty():
        yield _nothing
        return
    # imported here: only a terminal needs it
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def _nothing() -> None:
    return
