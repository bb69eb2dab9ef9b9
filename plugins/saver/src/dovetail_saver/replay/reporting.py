"""The report of a replay, as text and as plain data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from dovetail.cli.output import table
from dovetail_saver.replay.comparing import TensorComparison, Verdict
from dovetail_saver.replay.session import Report, Request

_SHOWN = 10  # rows of each table in texts


def report_data(path: Path, request: Request, report: Report) -> dict[str, Any]:
    """Return a report as plain data."""
    return {
        "trace": str(path),
        "backends": report.backends,
        "recorded_backends": list(report.recorded_backends),
        "calls": report.calls,
        "executes": report.executes,
        "skipped": report.skipped,
        "failures": report.failures,
        "compared": request.compare,
        "tensors": dict(report.tensors),
        "worst": None if report.worst is None else msgspec.to_builtins(report.worst),
        "calls_that_differ": report.differing,
        "differences": msgspec.to_builtins(report.differences),
        "unequal_tensors": report.unequal_count,
        "unequal": msgspec.to_builtins(report.unequal),
        "seconds": report.seconds,
        "recorded_seconds": report.recorded_seconds,
        "dropped": list(report.dropped),
        "is_cut": report.is_cut,
    }


def report_text(path: Path, request: Request, report: Report) -> str:
    """Return a report for people."""
    rows = [
        ("backend", _backends(report)),
        ("calls", f"{report.calls:,}"),
        ("executes", f"{report.executes:,}"),
        ("calls that differ", f"{report.differing:,}"),
    ]
    if report.skipped:
        rows.append(("calls skipped", f"{report.skipped:,}"))
    rows.append(("tensors compared", _tensors(request, report)))
    if report.worst is not None:
        rows.append(("worst tensor", _name(report.worst)))
    times = f"{min(report.seconds):.3f} s"
    if report.recorded_seconds:  # programs of the vendor's Saver have no times
        times += f", recorded in {report.recorded_seconds:.3f} s"
    rows.append(("time", times if request.loops == 1 else f"{times}; best of {request.loops}"))
    parts = [f"{path}: {_verdict(report)}", table(("", ""), rows).lstrip("\n")]
    if report.unequal:
        shown = sorted(report.unequal, key=lambda each: each.badness, reverse=True)[:_SHOWN]
        headers = ("CALL", "GRAPH", "TENSOR", "VERDICT", "ELEMENTS", "LARGEST ERROR", "VERIFIERS")
        more = _more(report.unequal_count, len(report.unequal))
        parts.append(table(headers, map(_row, shown)) + more)
    if report.differences:
        shown_calls = report.differences[:_SHOWN]
        parts.append(
            "\n".join(f"call {d.call}: {d.text}\n    {d.reason}" for d in shown_calls)
            + _more(report.differing, len(report.differences))
        )
    return "\n\n".join(parts)


def _verdict(report: Report) -> str:
    if report.failures:
        return "differs from the recording"
    return "as recorded" if _compared(report) else "calls as recorded, outputs not compared"


def _backends(report: Report) -> str:
    made, recorded = ", ".join(report.backends) or "none", ", ".join(report.recorded_backends)
    if not recorded:  # the trace is cut off
        return made
    return f"{made}, as recorded" if made == recorded else f"{made}, recorded on {recorded}"


def _compared(report: Report) -> int:
    return sum(n for verdict, n in report.tensors.items() if verdict != Verdict.NOT_RECORDED)


def _tensors(request: Request, report: Report) -> str:
    if not request.compare:
        return "none: use --compare"
    counts = [f"{count:,} {verdict}" for verdict, count in report.tensors.items()]
    if not counts:
        return "none: no execution had outputs"
    return f"{_compared(report):,}: {', '.join(counts)}"


def _name(found: TensorComparison) -> str:
    error = "" if math.isnan(found.largest_error) else f", off by up to {found.largest_error:.3g}"
    return f"'{found.tensor}' of graph '{found.graph}' in call {found.call}{error}"


def _row(found: TensorComparison) -> tuple[object, ...]:
    count = f"{found.different:,} of {found.elements:,}" if found.different else ""
    error = "" if math.isnan(found.largest_error) else f"{found.largest_error:.3g}"
    verifiers = ", ".join(f"{v.name} {v.value:.4g}{v.unit}" for v in found.verifications)
    return (
        found.call,
        found.graph,
        found.tensor,
        found.verdict,
        count,
        error,
        found.reason or verifiers,
    )


def _more(count: int, listed: int) -> str:
    if count <= _SHOWN:
        return ""
    known = "them" if listed == count else f"the first {listed:,}"
    return f"\n... and {count - _SHOWN:,} more; --json has {known}"
