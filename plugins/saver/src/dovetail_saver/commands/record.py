"""`dovetail record`: the calls of a program as traces."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.output import current_output
from dovetail.errors import ConfigError, counted, suggest_name
from dovetail.files import unwritable
from dovetail.plugins import COMMANDS, names
from dovetail_saver.choices import PayloadPolicy
from dovetail_saver.commands.options import NewTrace
from dovetail_saver.environment import FOLDER, PAYLOADS

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_USAGE = "--out DIR [OPTIONS] --"


@app.command(context_settings={"allow_interspersed_args": False}, options_metavar=_USAGE)
def record(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="PROGRAM",
            help="A dovetail command, a Python script or any other program, with its arguments.",
        ),
    ],
    out: NewTrace,
    payloads: Annotated[
        PayloadPolicy,
        typer.Option(
            "--payloads",
            help="Data to keep: all; all but outputs; outputs as hashes only; or none.",
        ),
    ] = PayloadPolicy.ALL,
) -> int:
    """Record all API calls of a program and of the processes that it starts.

    The exit code is that of the program. The first process that makes calls records into DIR, and
    each other one into a folder `process-PID` in it.
    """
    # imported here: the help needs no runtime
    from dovetail_saver.trace import require_new

    require_new(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from error
    environment = {FOLDER: str(out.absolute()), PAYLOADS: payloads.value}
    code = _run(_command(program), {**os.environ, **environment})
    _report(out)
    return code


def _command(program: list[str]) -> list[str]:
    """Return the command line of a program.

    Raises:
        ConfigError: It is not found.
    """
    name, *rest = program
    known = names(COMMANDS)
    if name.replace("_", "-") in known:
        shared = ["--json"] if current_output().json else []
        return [sys.executable, "-m", "dovetail", *shared, name, *rest]
    if name == "dovetail":
        return [sys.executable, "-m", "dovetail", *rest]
    if name in ("python", "python3"):
        return [sys.executable, *rest]
    if name.endswith(".py") and Path(name).is_file():
        return [sys.executable, name, *rest]
    found = shutil.which(name)
    if found is None:
        raise ConfigError(
            f"program '{name}' not found",
            code="USAGE",
            where="dovetail record",
            hint=f"name a dovetail command ({suggest_name(name, known)}), a Python script or "
            "a program",
        )
    return [found, *rest]


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run a program and return its exit code, as a shell does for one ended by a signal."""
    with subprocess.Popen(command, env=environment) as process:
        before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            while True:
                try:
                    code = process.wait()
                    break
                except KeyboardInterrupt:
                    continue  # the terminal has sent it to the program, too
        finally:
            signal.signal(signal.SIGTERM, before)
    return code if code >= 0 else 128 - code


def _report(folder: Path) -> None:
    """Print a line about each trace to stderr."""
    from dovetail_saver.trace import Trace
    from dovetail_saver.trace.header import CALLS_NAME

    found = [folder, *sorted(folder.glob("process-*"))]
    traces = [each for each in found if (each / CALLS_NAME).is_file()]
    if not traces:
        with suppress(OSError):
            folder.rmdir()
        current_output().message(
            f"record: {folder} has no trace: no API calls were made, or the log says why"
        )
    for each in traces:
        trace = Trace(each)
        calls = trace.count()
        size = sum(file.stat().st_size for file in each.iterdir() if file.is_file())
        end = trace.mark.reason if trace.mark else "cut off: the program ended without a close"
        text = f"record: {counted(calls, 'call')}, {size:,} bytes in {each}"
        current_output().message(f"{text}; {end}" if end else text)
