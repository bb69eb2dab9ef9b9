"""Calls that a trace may do without, though others depend on them in some way."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.runtime.api_table import API, ArgKind
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail_saver.minimizing.drafts import Draft, arguments_of, with_arguments
from dovetail_saver.rewriting import TraceRecord
from dovetail_saver.uses import EXECUTES, returned_handle, used_handles

_UPDATES = ("graph_update_tensor", "context_update_tensor")


def removable(draft: Draft) -> list[int]:
    """Return the numbers of calls that can be tried to be left out, the last first.

    A call on which later ones depend is not among them: `finalize` before an execution, nodes
    before `finalize`, and calls whose handle is used, unless it may be None there.
    """
    found: list[int] = []
    used: set[int] = set()  # handles that later calls need
    executed: set[int | None] = set()  # graphs, by their handles
    finalized: set[int | None] = set()
    for entry in reversed(draft.entries()):
        record = entry.record
        if isinstance(record, CompletionRecord):
            continue
        if isinstance(record, CallRecord):
            function, owner = record.function, record.owner
            is_needed = (
                returned_handle(record, entry.where) in used
                or (function == "graph_finalize" and owner in executed)
                or (function == "graph_add_node" and owner in finalized)
            )
            used |= set(used_handles(_without_optional(record), entry.where))
            executed |= {owner} if function in EXECUTES else set()
            finalized |= {owner} if function == "graph_finalize" else set()
            if is_needed:
                continue
        found.append(entry.index)
    return found


def without(draft: Draft, index: int) -> Draft:
    """Return a draft without a call.

    Handles that the call returned become None where they are optional. Other calls on them are left
    out, too, and so is a second `finalize` for which no update is left.
    """
    gone: set[int] = set()  # handles
    ended: set[int] = set()  # numbers of executions
    records: list[TraceRecord] = []
    for entry in draft.entries():
        record = entry.record
        edited: TraceRecord | None = record
        if isinstance(record, CallRecord):
            edited = None if entry.index == index else _without_handles(record, gone)
            if edited is None:
                ended.add(record.number)
                number = returned_handle(record, entry.where)
                gone |= set() if number is None else {number}
        elif entry.index == index or record.number in ended:
            edited = None
        if edited is not None:
            records.append(edited)
    return Draft(tuple(_without_idle_finalizes(records)), draft.added)


def _without_handles(record: CallRecord, gone: set[int]) -> CallRecord | None:
    """Return a call without the handles that no longer exist; None if it needs one of them."""
    where = f"call {record.number}"
    if not gone.intersection(used_handles(record, where)):
        return record
    edited = _without_optional(record, gone)
    return None if gone.intersection(used_handles(edited, where)) else edited


def _without_optional(record: CallRecord, gone: set[int] | None = None) -> CallRecord:
    """Return a call with None instead of some handles, or of all, that are optional."""
    optional = [
        name
        for name, value in API[record.function].args.items()
        if value.kind is ArgKind.HANDLE and value.nullable
    ]
    if not optional:
        return record
    arguments = arguments_of(record)
    for name in optional:
        if gone is None or arguments.get(name) in gone:
            arguments[name] = None
    return with_arguments(record, arguments)


def _without_idle_finalizes(records: list[TraceRecord]) -> Iterator[TraceRecord]:
    """Yield records without those that finalize a graph again though nothing was updated."""
    finalized: set[int | None] = set()
    for record in records:
        if isinstance(record, CallRecord) and record.error is None:
            if record.function in _UPDATES:
                # an update of a context tensor is one of every graph that uses it
                finalized.discard(record.owner)
                finalized = set() if record.function == _UPDATES[1] else finalized
            if record.function == "graph_finalize":
                if record.owner in finalized:
                    continue
                finalized.add(record.owner)
        yield record
