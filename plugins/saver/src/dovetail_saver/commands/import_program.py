"""`dovetail trace import`: the program of the vendor's Saver as a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.errors import counted
from dovetail_saver.choices import DEFAULT_BACKEND
from dovetail_saver.commands.options import NewTrace


def import_program(
    program: Annotated[
        Path, typer.Argument(metavar="SAVER_OUTPUT_C", help="The program of the vendor's Saver.")
    ],
    params: Annotated[Path, typer.Argument(metavar="PARAMS_BIN", help="Its payloads.")],
    out: NewTrace,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Backend of the trace, since the program names none; an installed one. "
            f"By default {DEFAULT_BACKEND}, installed or not.",
        ),
    ] = None,
) -> None:
    """Convert a program of the vendor's Saver to a trace.

    The program is read as data: it is neither compiled nor run. Calls that have no equivalent
    become opaque records and are listed.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.output import current_output
    from dovetail.plugins import names
    from dovetail.runtime.calls.references import BACKENDS
    from dovetail.runtime.installed import backend_class
    from dovetail_saver.vendor.importer import import_program as convert

    name = backend or DEFAULT_BACKEND
    if backend is not None:
        backend_class(backend)  # an unknown name is an error of its own
    elif name not in names(BACKENDS):
        current_output().message(
            f"backend '{name}' is not installed: replay the trace with --backend, or import the "
            "program with it"
        )
    summary = convert(program, params, out, name)
    lines = [f"{out}: {counted(sum(summary.calls.values()), 'call')} on backend {name}"]
    lines += summary.lines("without an equivalent, left out by a replay")
    if summary.unread_bytes:
        lines.append(f"{params}: {summary.unread_bytes} bytes are not read by the program")
    current_output().data({"trace": str(out), **summary.data()}, "\n".join(lines))
