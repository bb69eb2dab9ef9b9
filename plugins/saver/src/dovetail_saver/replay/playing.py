"""The calls of a trace, made again one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec

from dovetail.runtime.calls import CallRecord, InstalledResolver, Played, Player, Resolver
from dovetail_saver.replay.retargeting import Retarget
from dovetail_saver.replay.skipping import Skipping
from dovetail_saver.trace import Entry, OpaqueRecord, Trace


class Step(msgspec.Struct, frozen=True, eq=False):
    """A record of a trace, and what became of it.

    Attributes:
        entry: The record.
        played: The call that was made; None if none was.
        skipped: Why it was not made.
    """

    entry: Entry
    played: Played | None = None
    skipped: str = ""

    @property
    def is_rejected(self) -> bool:
        """True if the call fails, but did not when it was recorded."""
        played = self.played
        return played is not None and played.error is not None and played.record.error is None


class Stepper:
    """Player of records, but for those that depend on a rejected one; from any thread.

    Args:
        player: Makes the calls.
        retarget: Another backend.
    """

    def __init__(self, player: Player, retarget: Retarget | None = None) -> None:
        self._player = player
        self._retarget = retarget
        self._skipping = Skipping()
        self._lock = threading.Lock()

    def step(self, entry: Entry) -> Step:
        """Make the call of a record.

        Raises:
            TraceError: The record is invalid.
        """
        record = entry.record
        if isinstance(record, OpaqueRecord):
            return Step(entry, skipped="not a call of this API")
        if self._retarget is not None or self._skipping.is_needed:
            with self._lock:
                if reason := self._skipping.reason(record, entry):
                    return Step(entry, skipped=reason)
                if self._retarget is not None and isinstance(record, CallRecord):
                    record = self._retarget(record, entry.where)
        step = Step(entry, self._player.play(record, entry.where))
        if step.is_rejected:
            with self._lock:
                self._skipping.add(entry)
        return step


def replay(trace: Trace, resolver: Resolver | None = None) -> Iterator[Played]:
    """Make the calls of a trace again on the recorded backends, in the order of the records.

    Args:
        trace: The trace.
        resolver: Finds backends and op packages; by default the installed ones.

    Raises:
        TraceError: The trace is invalid.
    """
    with Player(trace.payloads, resolver or InstalledResolver()) as player:
        stepper = Stepper(player)
        for entry in trace:
            step = stepper.step(entry)
            if step.played is not None:
                yield step.played
