"""`dovetail trace info`: what a trace is."""

from __future__ import annotations

from dovetail_saver.commands.options import TracePath


def info(path: TracePath) -> None:
    """Show who recorded a trace, on what, and whether it is complete."""
    # imported here: the help needs no runtime
    from dovetail.cli.output import current_output
    from dovetail_saver.overview import info_of
    from dovetail_saver.trace import Trace

    found = info_of(Trace(path))
    current_output().data(found.data, found.text)
