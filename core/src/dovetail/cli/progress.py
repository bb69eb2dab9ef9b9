"""Progress of long tasks: a bar on a terminal, and notification of hooks."""

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
    """Yield a function to call after each inference: it notifies hooks and moves a bar.

    The bar is shown on a terminal only.

    Args:
        label: Name of the task.
        total: Number of inferences, if known.
    """
    counted = count(1)

    def notify() -> None:
        done = next(counted)
        if hooks.active:
            hooks.progress(Progress(label, done, total, "inferences"))

    if not sys.stderr.isatty():
        yield notify
        return
    # imported here: only a terminal needs it
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)

        def advance() -> None:
            notify()
            bar.advance(task)

        yield advance


@contextmanager
def shown_progress() -> Iterator[None]:
    """Show the progress of long tasks during a `with` block, on a terminal only."""
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
