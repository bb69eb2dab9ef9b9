"""`dovetail replay`: the calls of a trace again, on any backend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail_saver.choices import Threads, Timing
from dovetail_saver.commands.options import TracePath

if TYPE_CHECKING:
    from dovetail_saver.replay import Report, Request

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def replay(
    trace: TracePath,
    backend: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Backend to use instead of the recorded one."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            *("--config", "--config-file"),
            metavar="FILE",
            help="Settings instead of the recorded ones, as for net-run; needs --backend.",
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="exact|VERIFIER",
            help="Compare outputs with the recorded ones: exactly, or by a verifier such as "
            "RtolAtol,rtolmargin=0.01. May be repeated.",
        ),
    ] = None,
    loop: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of replays, each with new objects.")
    ] = 1,
    timing: Annotated[
        Timing, typer.Option(help="Make calls as soon as possible, or at their recorded times.")
    ] = Timing.FAST,
    threads: Annotated[
        Threads, typer.Option(help="Make calls from one thread, or from the recorded ones.")
    ] = Threads.ONE,
    save_outputs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the outputs of the first replay to DIR/call_N/TENSOR.npy, as stored "
            "values.",
        ),
    ] = None,
    re_record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Record the replay as a new trace.")
    ] = None,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going",
            help="After a call that the backend rejects, go on with those that do not depend on "
            "it.",
        ),
    ] = False,
    op_packages: OpPackages = None,
) -> None:
    """Make the recorded calls again: the same objects in the same order, on any backend.

    Without --compare, outputs are not compared. The exit code is 1 if a call fails that did not, or
    the other way round, or if an output differs. Outputs whose values were not recorded are
    compared by their hashes.
    """
    # imported here: the help needs no runtime
    from contextlib import nullcontext

    from dovetail.cli.op_packages import load_op_packages
    from dovetail_saver.recording import Recorder
    from dovetail_saver.replay import Request, Session
    from dovetail_saver.replay.settings import retargeting, verifiers_of

    wanted = compare or []
    request = Request(
        retarget=retargeting(backend, config),
        verifiers=verifiers_of(wanted),
        compare=bool(wanted),
        all_results=bool(wanted) and backend is None and config is None,
        loops=loop,
        timing=timing,
        threads=threads,
        keep_going=keep_going,
        outputs=save_outputs,
        packages=load_op_packages(split_list(op_packages, "--op-packages")),
    )
    with nullcontext() if re_record is None else Recorder(re_record):
        report = Session(trace, request).run()
    _show(trace, request, report)
    if report.failures:
        raise typer.Exit(1)


def _show(path: Path, request: Request, report: Report) -> None:
    from dovetail.cli.output import current_output
    from dovetail_saver.replay.reporting import report_data, report_text

    output = current_output()
    for setting in report.dropped:
        output.message(f"not given to the backend: {setting}")
    if report.is_cut:
        output.message(f"{path}: the trace is cut off after its last whole line")
    output.data(report_data(path, request, report), report_text(path, request, report))
