"""`dovetail trace trim`: some calls of a trace, and what they depend on."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail_saver.commands.options import NewTrace, TracePath


def trim(
    path: TracePath,
    out: NewTrace,
    calls: Annotated[
        str,
        typer.Option(
            metavar="SET",
            help="Calls to keep: numbers, ranges and API names, such as 0-100,200,graph_execute; "
            "7- is all from 7 on.",
        ),
    ],
) -> None:
    """Write a trace of some calls and of those that they depend on.

    The latter are the calls that created their handles, and those that changed what they read, such
    as updates of weights, op packages, and executes that wrote a shared tensor.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.output import current_output
    from dovetail_saver.call_sets import parse_call_set
    from dovetail_saver.trimming import trim as write_trimmed

    total, chosen, written = write_trimmed(path, out, parse_call_set(calls))
    data = {"trace": str(out), "calls": total, "chosen": chosen, "written": written}
    text = f"{out}: {written:,} of {total:,} calls, for {chosen:,} chosen ones"
    current_output().data(data, text)
