"""Drafts: records of a trace under reduction, with the payloads that the trace lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dovetail.ir import Blob
from dovetail.runtime.api_table import API
from dovetail.runtime.calls import CallRecord, CompletionRecord, Role
from dovetail_saver.rewriting import TraceCopier, TraceRecord, new_trace, rewrite
from dovetail_saver.trace import Entry, Trace


@dataclass(frozen=True, slots=True)
class Selection:
    """Some calls of a trace, whose records stay on disk.

    Attributes:
        trace: The trace.
        calls: Number of calls.
        kept: Their indices; None for all.
    """

    trace: Trace
    calls: int
    kept: frozenset[int] | None = None

    @property
    def key(self) -> int:
        """A number that differs for other calls."""
        return hash((Selection, self.kept))

    def entries(self) -> Iterator[Entry]:
        """Yield the records."""
        for entry in self.trace:
            if self.kept is None or entry.index in self.kept:
                yield entry

    def of(self, kept: Iterable[int]) -> Selection:
        """Return a selection of some of the calls."""
        chosen = frozenset(kept)
        return Selection(self.trace, len(chosen), chosen)

    def draft(self) -> Draft:
        """Return the records as a draft, in memory."""
        return Draft(tuple(entry.record for entry in self.entries()))

    def write(self, trace: Trace, folder: Path) -> None:
        """Write a trace; see `Draft.write`."""
        kept = self.kept
        rewrite(trace, folder, lambda e, _: e.record if kept is None or e.index in kept else None)


@dataclass(frozen=True, slots=True)
class Draft:
    """Records of a trace.

    Attributes:
        records: The records.
        added: Payloads that the trace does not have, by key.
    """

    records: tuple[TraceRecord, ...]
    added: Mapping[str, Blob] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        """Number of calls."""
        return sum(not isinstance(record, CompletionRecord) for record in self.records)

    @property
    def key(self) -> int:
        """A number that differs for other records."""
        return hash(tuple((type(r).__name__, r.number, _content(r)) for r in self.records))

    def entries(self) -> list[Entry]:
        """Return the records with the numbers of their calls."""
        found: list[Entry] = []
        unfinished: dict[int, int] = {}
        count = 0
        for record in self.records:
            if isinstance(record, CompletionRecord):
                found.append(Entry(unfinished.pop(record.number), record, f"call {record.number}"))
                continue
            if isinstance(record, CallRecord) and API[record.function].ends_later:
                unfinished[record.number] = count
            found.append(Entry(count, record, f"call {record.number}"))
            count += 1
        return found

    def of(self, kept: Iterable[int]) -> Draft:
        """Return a draft of some of the calls."""
        chosen = set(kept)
        return Draft(tuple(e.record for e in self.entries() if e.index in chosen), self.added)

    def write(self, trace: Trace, folder: Path) -> None:
        """Write a trace.

        Args:
            trace: The trace that the records are from; it has been read.
            folder: Folder of the new trace, new or empty.

        Raises:
            TraceError: A payload is damaged.
        ConfigError: The folder is in use.
            ContainerError: It cannot be written.
        """
        with new_trace(folder, trace.header) as writer:
            copier = TraceCopier(trace, writer)
            for record in self.records:
                for key in getattr(record, "payloads", ()):
                    if key in self.added:
                        writer.payloads.add(self.added[key], Role.STATIC)
                copier.add(record)


def arguments_of(record: CallRecord) -> dict[str, Any]:
    """Return the arguments of a call as plain data."""
    return msgspec.json.decode(record.arguments, type=dict[str, Any])


def with_arguments(
    record: CallRecord, arguments: Mapping[str, Any], payloads: Sequence[str] | None = None
) -> CallRecord:
    """Return a call with other arguments and payloads."""
    return msgspec.structs.replace(
        record,
        arguments=msgspec.Raw(msgspec.json.encode(arguments)),
        payloads=record.payloads if payloads is None else tuple(payloads),
    )


def _content(record: TraceRecord) -> tuple[object, ...]:
    arguments = bytes(getattr(record, "arguments", b""))
    return arguments, bytes(getattr(record, "result", b"")), getattr(record, "payloads", ())
