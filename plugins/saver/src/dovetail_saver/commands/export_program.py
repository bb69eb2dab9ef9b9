"""`dovetail trace export saver-c`: a trace as a program of QNN's API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.errors import counted
from dovetail_saver.commands.options import TracePath


def export_program(
    path: TracePath,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the files.")],
) -> None:
    """Write a program in C, as the vendor's Saver does.

    The files are saver_output.c and params.bin. The program makes the recorded calls on a backend
    of the vendor. What C cannot express is left out, with a comment, and listed.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.output import current_output
    from dovetail_saver.vendor.exporter import PAYLOADS_NAME, PROGRAM_NAME
    from dovetail_saver.vendor.exporter import export_program as convert

    summary = convert(path, out)
    files = out / PROGRAM_NAME, out / PAYLOADS_NAME
    lines = [
        f"{files[0]}, {files[1]}: {counted(sum(summary.calls.values()), 'call')}",
        *summary.lines("not in the program"),
    ]
    current_output().data(
        {"program": str(files[0]), "params": str(files[1]), **summary.data()}, "\n".join(lines)
    )
