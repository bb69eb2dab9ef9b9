"""The work of `dovetail net-run`, after its options are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.api.preparation import Recorded, backend_of
from dovetail.files import Staging, staged_folder, unwritable
from dovetail.runtime import backend_name
from dovetail_tools import _profiling
from dovetail_tools._backend import new_preparer, profile_level
from dovetail_tools._net_run import metadata
from dovetail_tools._net_run.job_run import JobOutcome, JobRun
from dovetail_tools._net_run.jobs import make_jobs
from dovetail_tools._net_run.metadata import graph_metadata, write_metadata
from dovetail_tools._net_run.output_folder import check_replaceable, replace_results
from dovetail_tools._net_run.request import Request
from dovetail_tools._net_run.sources import source_of
from dovetail_tools._profiling import profiling_data, write_chrome_trace
from dovetail_tools._run_log import RunLog
from dovetail_tools._timings import Timings


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


def execute(request: Request) -> Outcome:
    """Execute a request; results appear in its output folder at the end.

    Raises:
        DovetailError: Any step failed; the output folder is unchanged.
    """
    name, recorded = _backend(request)
    preparer, ops = new_preparer(
        name, request.config_file, request.backend_options, request.op_packages, recorded
    )
    with preparer.backend as backend:
        if request.timeout_us is not None:
            backend.require("cancel", "SIGNAL_ERROR_UNSUPPORTED")
        if request.shares_buffers:
            backend.require("memory_handles", "MEM_ERROR_NOT_SUPPORTED")
        level = profile_level(backend, request.profiling)
        source = source_of(request, preparer, ops)
        jobs = make_jobs(request, source.graphs)
        check_replaceable(request.output_dir, [job.folder for job in jobs])
        with staged_folder(request.output_dir) as staging:
            most = preparer.config.profile.num_max_events
            with RunLog(staging.new, request.profiling, most) as log:
                timings = {job.graph.name: Timings(log) for job in jobs}
                graphs = source.prepare(preparer, jobs, timings)
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
            replace_results(staging, request.output_dir, folders, (metadata.NAME, _profiling.NAME))
    if request.chrome_trace is not None:
        write_chrome_trace(request.output_dir / _profiling.NAME, request.chrome_trace)
    return Outcome(name, request.output_dir, tuple(outcomes), profiling)


def _backend(request: Request) -> tuple[str, Recorded | None]:
    """Return the backend of a request, and how its context binary was prepared.

    Raises:
        DovetailError: The context binary cannot be read.
    """
    if request.context is None:
        return backend_name(request.backend or "cpu"), None
    found, recorded = backend_of(request.context)
    name = found if request.backend is None else backend_name(request.backend)
    return name, recorded if name == found else None


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
