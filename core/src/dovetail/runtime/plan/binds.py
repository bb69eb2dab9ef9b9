"""Binds for kernels of all engines: views, and sequences of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dovetail.runtime.plan.recipes import Builders, Data, PlanRecorder, Source
from dovetail.runtime.plan.values import Bound, Buffers


def no_op() -> None:
    """Do nothing: the call of a step whose result is a view."""


class View:
    """The bind of a step whose result is a view."""

    def __call__(self, buffers: Buffers) -> Bound:
        """Return a call that does nothing."""
        return no_op

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        return _VIEW, Data()


_VIEW = "view"
VIEW = View()
PLAN_BUILDERS = Builders()


@PLAN_BUILDERS.builds(_VIEW, Data)
def _view(data: Data, source: Source) -> View:
    return VIEW


def call_sequence(calls: Iterable[Callable[[], object]]) -> Bound:
    """Return a call that runs all of these calls."""
    found = tuple(calls)

    def run() -> None:
        for call in found:
            call()

    return run
