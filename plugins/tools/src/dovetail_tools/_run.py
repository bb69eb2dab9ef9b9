"""The work of `dovetail net-run`, after its options are read."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.api.preparation import Preparer
from dovetail.cli.op_packages import add_op_packages, load_op_packages
from dovetail.errors import BackendError
from dovetail.files import Staging, staged_folder, unwritable
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import Backend, Graph, ProfileLevel, backend_name
from dovetail.runtime.names import members_of
from dovetail_tools import _metadata, _profiling
from dovetail_tools._job_run import JobOutcome, JobRun
from dovetail_tools._jobs import Job, make_jobs
from dovetail_tools._metadata import graph_metadata, write_metadata
from dovetail_tools._output_folder import check_replaceable, replace_results
from dovetail_tools._profiling import profiling_data, write_chrome_trace
from dovetail_tools._request import Profiling, Request
from dovetail_tools._run_log import RunLog
from dovetail_tools._timings import Timings

_LOG = logging.getLogger("dovetail.net-run")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run.

    Attributes:
        backend: Name of the backend.
        output_dir: Folder of the results.
        jobs: The result of each graph.
        profiling: The times as plain data, if requested.
    """

    backend: str
    output_dir: Path
    jobs: tuple[JobOutcome, ...]
    profiling: dict[str, Any] | None


def execute(request: Request, perf_profile: str | None = None) -> Outcome:
    """Execute a request; results appear in its output folder at the end.

    Args:
        request: The request.
        perf_profile: The performance profile, if one is requested.

    Raises:
        DovetailError: Any step failed; the output folder is unchanged.
    """
    name = backend_name(request.backend)
    packages = load_op_packages(request.op_packages, members_of(name))
    ops = installed_ops()
    add_op_packages(ops, packages)
    preparer = Preparer(
        name, request.config_file, request.backend_options, ops=ops, packages=packages
    )
    with preparer.backend as backend:
        if perf_profile is not None:
            _LOG.warning("--perf-profile %s has no effect on this machine", perf_profile)
        level = _require_features(backend, request)
        jobs = make_jobs(request, preparer.config, ops)
        check_replaceable(request.output_dir, [job.folder for job in jobs])
        with staged_folder(request.output_dir) as staging:
            most = preparer.config.profile.num_max_events
            with RunLog(staging.new, request.profiling, most) as log:
                timings = {job.graph.name: Timings(log) for job in jobs}
                graphs = _prepared(preparer, jobs, timings)
                runs = [
                    JobRun(job, graph, request, preparer.config.overlap, timings[job.graph.name])
                    for job, graph in zip(jobs, graphs, strict=True)
                ]
                outcomes = [run.execute(level, staging.new) for run in runs]
            profiling = None
            if request.profiling is not None:
                profiling = profiling_data(request.profiling, name, timings)
            _write_summaries(request.output_dir, staging, name, outcomes)
            folders = [job.folder for job in jobs]
            replace_results(staging, request.output_dir, folders, (_metadata.NAME, _profiling.NAME))
    if request.chrome_trace is not None:
        write_chrome_trace(request.output_dir / _profiling.NAME, request.chrome_trace)
    return Outcome(name, request.output_dir, tuple(outcomes), profiling)


def _require_features(backend: Backend, request: Request) -> int:
    """Return the level of profiles, before anything is read.

    Raises:
        BackendError: The backend lacks a capability of the request.
    """
    if request.timeout_us is not None:
        backend.require("cancel", "SIGNAL_ERROR_UNSUPPORTED")
    if request.profiling is Profiling.DETAILED:
        backend.require("watch", "PROFILE_ERROR_UNSUPPORTED")
        return ProfileLevel.DETAILED
    if request.profiling is not Profiling.BACKEND:
        return ProfileLevel.BASIC
    if not backend.capabilities.profile_levels:
        raise BackendError(
            f"backend '{backend.name}' has no profiling level of its own",
            code="PROFILE_ERROR_UNSUPPORTED",
            where="--profiling-level backend",
            hint="use basic or detailed",
        )
    return backend.capabilities.profile_levels[0]


def _prepared(
    preparer: Preparer, jobs: Sequence[Job], timings: Mapping[str, Timings]
) -> tuple[Graph, ...]:
    """Return the graphs of jobs, ready to run, and record how long that took."""
    outputs = {job.graph.name: tuple(job.files) for job in jobs}
    start = time.perf_counter()

    def finalize(graph: Graph) -> None:
        nonlocal start
        profile = preparer.backend.create_profile()
        computed = [name for name in outputs[graph.name] if name not in graph.interface.outputs]
        graph.finalize(profile, outputs=computed)
        timings[graph.name].take(profile)
        profile.free()
        timings[graph.name].prepared(graph.name, start)
        start = time.perf_counter()

    context = preparer.prepare([job.model for job in jobs], finalize)
    return tuple(context.graphs[job.graph.name] for job in jobs)


def _write_summaries(
    path: Path,
    staging: Staging,
    backend: str,
    outcomes: list[JobOutcome],
) -> None:
    graphs = [
        graph_metadata(
            outcome.job.graph.name,
            outcome.job.folder,
            outcome.results,
            outcome.job.feed.forms,
            outcome.job.feed.batch,
            outcome.job.files,
        )
        for outcome in outcomes
    ]
    try:
        write_metadata(staging.new, backend, graphs)
    except OSError as error:
        raise unwritable(path, error) from error
