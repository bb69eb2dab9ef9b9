"""`dovetail trace verify`: all of a trace, checked."""

from __future__ import annotations

from dovetail.errors import counted
from dovetail_saver.commands.options import TracePath


def verify(path: TracePath) -> None:
    """Check every line, argument, handle and payload of a trace."""
    # imported here: the help needs no runtime
    from dovetail.cli.output import current_output
    from dovetail_saver.verifying import verify as check

    calls = check(path)
    current_output().data(
        {"trace": str(path), "calls": calls}, f"{path}: {counted(calls, 'call')}, intact"
    )
