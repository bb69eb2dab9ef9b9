"""Overviews of a trace as text and data: its origin, and the statistics of its calls."""

from __future__ import annotations

from dataclasses import asdict

import msgspec

from dovetail.api.inspection import FileSummary
from dovetail.cli.output import table
from dovetail.errors import counted
from dovetail_saver.statistics import statistics
from dovetail_saver.trace import Trace


def info_of(trace: Trace) -> FileSummary:
    """Return who recorded a trace, on what, and whether it is complete.

    Raises:
        TraceError: The trace is invalid.
    """
    header, host, mark = trace.header, trace.header.host, trace.read_mark()
    if mark is None:
        calls, end = statistics(trace).calls, "cut off"
    else:
        calls, end = mark.calls, f"ended early: {mark.reason}" if mark.reason else "complete"
    text = [
        f"{trace.folder}: {header.format} {header.version}.{header.minor}, "
        f"{counted(calls, 'call')}, {end}",
        f"recorded by: {header.producer or 'an unknown program'}",
        f"backends: {', '.join(header.backends) or 'unknown'}",
        f"payloads: {header.payloads.value}",
        f"host: {host.system} {host.machine}, Python {host.python}",
        f"plugins: {', '.join(f'{n} {v}' for n, v in header.plugins.items()) or 'unknown'}",
    ]
    data = {"trace": str(trace.folder), **msgspec.to_builtins(header), "calls": calls, "end": end}
    return FileSummary("\n".join(text), data)


def statistics_of(trace: Trace) -> FileSummary:
    """Return the number of calls by name, with errors and times.

    Raises:
        TraceError: The trace is invalid.
    """
    found = statistics(trace)
    rows = [
        (
            name,
            f"{each.calls:,}",
            f"{each.errors:,}" if each.errors else "",
            f"{each.total_ns / 1e6:,.3f}",
            f"{each.total_ns / 1e3 / max(each.calls, 1):,.1f}",
            f"{each.max_ns / 1e3:,.1f}",
        )
        for name, each in sorted(found.functions.items(), key=lambda item: -item[1].total_ns)
    ]
    headers = ("CALL", "COUNT", "ERRORS", "TOTAL MS", "MEAN US", "MAX US")
    text = [
        f"{trace.folder}: {counted(found.calls, 'call')} in {found.span_ns / 1e9:,.3f} s, "
        f"{counted(len(found.threads), 'thread')}, {counted(found.errors, 'error')}, {found.end}",
        f"payloads: {found.payloads:,}, {found.payload_bytes:,} bytes",
        "",
        table(headers, rows),
    ]
    return FileSummary("\n".join(text), {"trace": str(trace.folder), **asdict(found)})
