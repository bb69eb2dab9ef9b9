"""The final report of `dovetail net-run`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dovetail.cli.output import current_output
from dovetail.errors import counted
from dovetail_tools import _profiling
from dovetail_tools._net_run.job_run import JobOutcome
from dovetail_tools._net_run.run import Outcome


def report(outcome: Outcome) -> None:
    """Report the result of a run: as text on stderr, and with --json as data on stdout."""
    output = current_output()
    if output.json:
        output.data(_data(outcome), "")
        return
    if outcome.profiling is not None:
        output.message(_profiling.profiling_text(outcome.profiling))
        output.message(f"profile in {outcome.output_dir / _profiling.NAME}")
    for job in outcome.jobs:
        output.message(_text(outcome, job))
        for line in job.placement.lines() if job.placement is not None else ():
            output.message(f"  {line}")


def _data(outcome: Outcome) -> dict[str, Any]:
    graphs = [
        {
            "graph": job.job.graph.name,
            "inferences": len(job.timings.execute_us),
            "inference_ms": job.timings.inference_ms(),
            "inferences_per_s": job.timings.inferences_per_s,
            "results": job.results,
            "results_dir": str(outcome.output_dir / job.job.folder),
            **({} if job.placement is None else {"placement": job.placement.data()}),
        }
        for job in outcome.jobs
    ]
    data: dict[str, Any] = {
        "backend": outcome.backend,
        "output_dir": str(outcome.output_dir),
        "graphs": graphs,
    }
    return data if outcome.profiling is None else data | {"profiling": outcome.profiling}


def _text(outcome: Outcome, job: JobOutcome) -> str:
    times = job.timings.inference_ms()
    shown = ", ".join(f"{what} {value:.3f}" for what, value in times.items())
    count = len(job.timings.execute_us)
    return (
        f"{job.job.graph.name} on {outcome.backend}: {counted(count, 'inference')}; "
        f"ms per inference: {shown}; {job.timings.inferences_per_s:.1f} inferences/s; "
        f"{'; '.join(_locations(outcome, job))}"
    )


def _locations(outcome: Outcome, job: JobOutcome) -> Iterator[str]:
    folder = outcome.output_dir / job.job.folder
    if job.results == 0:
        yield "no outputs kept"
    elif job.results == 1:
        yield f"outputs in {folder / 'Result_0'}"
    else:
        yield f"outputs in {folder / 'Result_0'} to Result_{job.results - 1}"
