"""Running one job: how its inferences overlap, and which of them are profiled."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dovetail.cli.progress import progress
from dovetail.runtime import Graph, ProfilingWindow
from dovetail.runtime.config_file import OverlapConfig
from dovetail.runtime.placement import Placement
from dovetail_tools._net_run.executor import JobRunner
from dovetail_tools._net_run.jobs import Job
from dovetail_tools._net_run.overlap import OverlapLimits
from dovetail_tools._net_run.request import Request
from dovetail_tools._timings import Timings

_LOG = logging.getLogger("dovetail.net-run")


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The result of one graph.

    Attributes:
        job: The job that was run.
        timings: Its times.
        results: Number of results written.
        placement: What ran on which backend, if there were several.
    """

    job: Job
    timings: Timings
    results: int
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job with its prepared graph.

    Attributes:
        job: The job.
        graph: Its handle, finalized.
        request: The request that it is part of.
        overlap: Limits of the config for inferences that overlap.
        timings: Receives the times.
    """

    job: Job
    graph: Graph
    request: Request
    overlap: OverlapConfig
    timings: Timings

    def execute(self, level: int, staging: Path) -> JobOutcome:
        """Run the job.

        Args:
            level: Level of the profiles.
            staging: The folder below which results are written.

        Raises:
            DovetailError: A file cannot be read or written, or the backend failed.
        """
        runner = JobRunner(
            self.job,
            self.graph,
            self.request,
            level,
            self._window(),
            staging / self.job.folder,
            self.timings,
        )
        total = self.request.num_inferences
        if total is None and self.request.duration_s is None:
            total = self.job.feed.inferences
        with progress(self.graph.name, total) as advance:
            runner.run(self._limits(), advance)
        return JobOutcome(self.job, self.timings, runner.results, self.graph.placement)

    def _window(self) -> ProfilingWindow:
        """Return the executions to profile, by the request or else the config."""
        delay, count = self.request.profiling_delay_s, self.request.profiled_executions
        config = self.graph.config
        if delay is not None:
            config = msgspec.structs.replace(config, graph_profiling_start_delay=delay)
        if count is not None:
            config = msgspec.structs.replace(config, graph_profiling_num_executions=count)
        return ProfilingWindow.of(config)

    def _limits(self) -> OverlapLimits | None:
        """Return the limits of inferences that overlap; None if they do not."""
        if self.request.synchronous:
            return None
        if not self.graph.context.backend.capabilities.asynchronous:
            _LOG.info("the backend executes synchronously only")
            return None
        ends = (*self.graph.inputs, *self.graph.outputs)
        nbytes = sum(t.spec.nbytes for t in ends) * self.job.parts
        depth = self.graph.context.config.async_execute_queue_depth
        return OverlapLimits.of(self.overlap, depth, nbytes)
