"""Trimming: some calls of a trace, and all that they depend on."""

from __future__ import annotations

from pathlib import Path

from dovetail_saver.call_sets import CallSet, call_name
from dovetail_saver.dependencies import Dependencies
from dovetail_saver.rewriting import rewrite
from dovetail_saver.trace import Trace


def trim(path: Path, folder: Path, calls: CallSet) -> tuple[int, int, int]:
    """Write a trace of chosen calls and those that they depend on.

    Args:
        path: The trace.
        folder: Folder of the new trace, new or empty.
        calls: The calls.

    Returns:
        Count of the calls of the trace, of the chosen ones, and of those written.

    Raises:
        ConfigError: No call is chosen, or the folder is in use.
        TraceError: The trace is invalid.
        ContainerError: It cannot be written.
    """
    trace = Trace(path)
    entries = trace.entries(payloads=False)
    chosen = {e.index for e in entries if calls.has(e.index, call_name(e.record))}
    if not chosen:
        raise calls.empty_error(str(path))
    dependencies = Dependencies(trace.entries(payloads=False))
    kept = dependencies.closure(chosen)
    written = rewrite(trace, folder, lambda e, _: e.record if e.index in kept else None)
    return dependencies.calls, len(chosen), written
