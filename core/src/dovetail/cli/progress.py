"""Progress: a bar on a terminal and nowhere else, and a notice for hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from dovetail.plugins.events import Progress
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

Advance = Callable[[], None]


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Advance]:
    """Return what is to be called after each inference; hooks are told, and a terminal shows a bar.

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


@contextmanager
def shown_progress() -> Iterator[None]:
    """Show what long tasks tell the hooks, while a `with` block runs, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    # imported here: only a terminal needs it
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar, hooks.registered(_Shown(bar)):
        yield


class _Shown:
    """A hook plugin that draws a bar for each task."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    @hookimpl
    def dovetail_progress(self, event: Progress) -> None:
        """Move the task's bar."""
        if event.task not in self._tasks:
            self._tasks[event.task] = self._bar.add_task(event.task, total=event.total)
        self._bar.update(self._tasks[event.task], completed=event.done)
