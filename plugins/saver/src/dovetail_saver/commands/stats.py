"""`dovetail trace stats`: counts, times and payloads of a trace."""

from __future__ import annotations

from dovetail_saver.commands.options import TracePath


def stats(path: TracePath) -> None:
    """Count the calls of a trace by name, with errors and times."""
    # imported here: the help needs no runtime
    from dovetail.cli.output import current_output
    from dovetail_saver.overview import statistics_of
    from dovetail_saver.trace import Trace

    found = statistics_of(Trace(path))
    current_output().data(found.data, found.text)
