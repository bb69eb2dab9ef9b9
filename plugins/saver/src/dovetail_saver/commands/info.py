"""`dovetail trace info`: what a trace is."""

from __future__ import annotations

from dovetail_saver.commands.options import TracePath


def info(path: TracePath) -> None:
    """Show where a trace comes from, how it ends and how many calls it has."""
    # imported here: the help needs no runtime
    import msgspec

    from dovetail.cli.output import current_output
    from dovetail.runtime.calls import CallRecord
    from dovetail_saver.trace import Trace

    trace = Trace(path)
    calls = sum(1 for entry in trace if isinstance(entry.record, CallRecord))
    header = trace.header
    end = _end(trace)
    data = {
        "trace": str(path),
        **msgspec.to_builtins(header),
        "calls": calls,
        "end": end,
        "is_complete": trace.mark is not None and not trace.mark.reason,
    }
    text = [
        f"{path}: {header.format} {header.version}.{header.minor}, {end}",
        f"recorded by {header.producer or 'an unknown program'} on backends: "
        f"{', '.join(header.backends) or 'unknown'}",
        f"payloads: {header.payloads.value}",
        f"calls: {calls:,}",
    ]
    current_output().data(data, "\n".join(text))


def _end(trace: object) -> str:
    """Return how a trace that was read ends, in words."""
    mark = getattr(trace, "mark", None)
    if mark is None:
        return "cut off"
    return f"ended early: {mark.reason}" if mark.reason else "complete"
