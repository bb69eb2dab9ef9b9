"""Calls that cannot be made again, because they depend on one that was rejected."""

from __future__ import annotations

from dovetail.runtime.api_table import API
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail_saver.trace import Entry
from dovetail_saver.uses import returned_handle, used_handles

# Without such a call, its owner is not what it was when the later calls were recorded.
_BUILDING = ("graph_create_tensor", "graph_add_node", "graph_finalize", "graph_update_tensor")


class Skipping:
    """Finds the calls that depend on rejected ones."""

    def __init__(self) -> None:
        self._broken: dict[int, int] = {}  # the rejected call, by handle
        self._missing: set[int] = set()  # handles that do not exist
        self._unstarted: dict[int, int] = {}  # the rejected call, by number of an execution

    @property
    def is_needed(self) -> bool:
        """True if there are rejected calls."""
        return bool(self._broken or self._unstarted)

    def add(self, entry: Entry) -> None:
        """Note a call that was rejected."""
        self._break(entry, entry.index)

    def reason(self, record: CallRecord | CompletionRecord, entry: Entry) -> str:
        """Return why a call cannot be made; empty if it can. A call that depends on it cannot, too.

        Raises:
            TraceError: The arguments are not those of the call.
        """
        if not self.is_needed:
            return ""
        cause = self._cause(record, entry.where)
        if cause is None:
            return ""
        self._break(entry, cause)
        return f"depends on call {cause}, which was rejected"

    def _cause(self, record: CallRecord | CompletionRecord, where: str) -> int | None:
        if isinstance(record, CompletionRecord):
            return self._unstarted.pop(record.number, None)
        is_end = record.function.endswith(("_free", "_deregister"))
        unusable = self._missing if is_end else self._broken
        found = next((h for h in used_handles(record, where) if h in unusable), None)
        return None if found is None else self._broken[found]

    def _break(self, entry: Entry, cause: int) -> None:
        record = entry.record
        if not isinstance(record, CallRecord):
            return
        number = returned_handle(record, entry.where)
        if number is not None:
            self._broken.setdefault(number, cause)
            self._missing.add(number)
        if record.function in _BUILDING and record.owner is not None:
            self._broken.setdefault(record.owner, cause)
        if API[record.function].ends_later and record.error is None:
            self._unstarted[record.number] = cause
