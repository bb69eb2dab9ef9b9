"""The description of an engine: its kernels, and the contexts in which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec

from dovetail.ir import Array
from dovetail.ops import CheckedGraph
from dovetail.runtime.contract import RunControl
from dovetail.runtime.measurements import Counter
from dovetail.runtime.plan.binds import PLAN_BUILDERS
from dovetail.runtime.plan.builder import Reorder
from dovetail.runtime.plan.images import RecordLayout
from dovetail.runtime.plan.kernels import KernelRegistry
from dovetail.runtime.plan.recipes import Builders
from dovetail.runtime.plan.values import Step

# Returns the counters of a step that has run; the second argument returns what it wrote, by name.
CountStep = Callable[[Step, Callable[[], Mapping[str, Array]]], tuple[Counter, ...]]


class Engine(msgspec.Struct, frozen=True):
    """An engine's kernels.

    Attributes:
        kernels: The kernels, registered for the backend.
        reorder: Converts between their layouts; None if there is only one.
        computing: Returns the context in which a graph is prepared and run, once at a time, by a
            number of threads; None is one for each processor.
        is_for_one_thread: Returns whether a graph has so little work that one thread computes it.
        builders: Builders of its recorded steps.
        record_layout: Records its layouts.
        name: Its name, version and instruction set.
        threads: Number of threads by default.
        dists: Names of the dists of its kernels; plans depend on their versions.
        settle: Waits for the calls made so far; see `PlanPrepared.settle`.
        begin: Called at the begin of each run, for calls that only begin work: its control ends
            waits for them.
        lane: Returns a context like that of a graph, for runs of the graph that overlap; None if
            runs do not overlap. Steps of such an engine keep nothing from one run to the next.
        rehearses: Whether a graph runs once when it is prepared: some drivers compile a program
            when it is first called.
    """

    kernels: KernelRegistry
    reorder: Reorder | None = None
    computing: Callable[[int | None], AbstractContextManager[None]] = lambda _: nullcontext()
    is_for_one_thread: Callable[[CheckedGraph], bool] = lambda _: False
    builders: Builders = PLAN_BUILDERS
    record_layout: RecordLayout | None = None
    name: str = "numpy"
    threads: int = 1
    dists: tuple[str, ...] = ()
    settle: Callable[[], float | None] = lambda: None
    begin: Callable[[RunControl], None] | None = None
    lane: Callable[[Any], AbstractContextManager[None]] | None = None
    rehearses: bool = False
