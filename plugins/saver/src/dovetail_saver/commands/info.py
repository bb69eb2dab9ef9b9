"""`dovetail trace info`: what a trace is."""

from __future__ import annotations

from dovetail_saver.commands.options import TracePath


def info(path: TracePath) -> None:
    """Show who recorded a trace, on what, and whether it is complete."""
    # imported here: the help needs no runtime
    import msgspec

    from dovetail.cli.output import current_output
    from dovetail_saver.statistics import statistics
    from dovetail_saver.trace import Trace

    trace = Trace(path)
    header, host, mark = trace.header, trace.header.host, trace.read_mark()
    if mark is None:
        calls, end = statistics(trace).calls, "cut off"
    else:
        calls, end = mark.calls, f"ended early: {mark.reason}" if mark.reason else "complete"
    data = {"trace": str(path), **msgspec.to_builtins(header), "calls": calls, "end": end}
    text = [
        f"{path}: {header.format} {header.version}.{header.minor}, {calls:,} calls, {end}",
        f"recorded by: {header.producer or 'an unknown program'}",
        f"backends: {', '.join(header.backends) or 'unknown'}",
        f"payloads: {header.payloads.value}",
        f"host: {host.system} {host.machine}, Python {host.python}",
        f"plugins: {', '.join(f'{n} {v}' for n, v in header.plugins.items()) or 'unknown'}",
    ]
    current_output().data(data, "\n".join(text))
