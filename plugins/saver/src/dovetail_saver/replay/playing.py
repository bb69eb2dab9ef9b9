"""Replay of traces."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.runtime.calls import InstalledResolver, Played, Player, Resolver
from dovetail_saver.trace import OpaqueRecord, Trace


def replay(trace: Trace, resolver: Resolver | None = None) -> Iterator[Played]:
    """Make the calls of a trace again, in the order in which they returned.

    Args:
        trace: The trace.
        resolver: Finds backends and op packages; by default the installed ones that are recorded.

    Raises:
        TraceError: The trace is invalid.
    """
    with Player(trace.payloads, resolver or InstalledResolver()) as player:
        for entry in trace:
            if not isinstance(entry.record, OpaqueRecord):
                yield player.play(entry.record, entry.where)
