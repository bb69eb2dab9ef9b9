"""`dovetail trace stats`: counts, times and payloads of a trace."""

from __future__ import annotations

from dovetail_saver.commands.options import TracePath


def stats(path: TracePath) -> None:
    """Count the calls of a trace by name, with errors and times."""
    # imported here: the help needs no runtime
    from dataclasses import asdict

    from dovetail.cli.output import current_output, table
    from dovetail_saver.statistics import statistics
    from dovetail_saver.trace import Trace

    found = statistics(Trace(path))
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
        f"{path}: {found.calls:,} calls in {found.span_ns / 1e9:,.3f} s"
        f" from {len(found.threads)} threads, {found.errors:,} errors, {found.end}",
        f"payloads: {found.payloads:,}, {found.payload_bytes:,} bytes",
        "",
        table(headers, rows),
    ]
    current_output().data({"trace": str(path), **asdict(found)}, "\n".join(text))
