"""Dependencies of recorded calls: which earlier calls a call needs to be made again.

A call needs the calls that created its handles, and those that changed what it reads: nodes and
updates of a graph, op packages of a backend, executes that wrote a shared tensor, and so on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dovetail.errors import TraceError
from dovetail.ir import TensorKind
from dovetail.runtime.api_table import API, ArgKind
from dovetail.runtime.calls import CallRecord
from dovetail.runtime.calls.payloads import NOT_RECORDED
from dovetail.runtime.calls.values import MemoryValue, typed_arguments
from dovetail_saver.trace import Entry, OpaqueRecord
from dovetail_saver.uses import EXECUTES, returned_handle

# Calls that change the handle they are made on.
_CHANGES_OWNER = frozenset(
    {
        *("backend_register_op_package", "signal_trigger", "log_set_level"),
        *("graph_create_tensor", "graph_add_node", "graph_update_tensor", "graph_set_config"),
        *("graph_finalize", "profile_clear", "profile_stream_to"),
    }
)
# Ops that remember earlier executions.
_STATEFUL = ("Buffer", "RandomUniformLike", "RandomNormalLike")

_Use = tuple[int, bool]  # a handle, and whether what it contains matters


class Dependencies:
    """The dependencies of the calls of a trace.

    Args:
        entries: The records.

    Attributes:
        calls: Number of calls.

    Raises:
        TraceError: A call refers to a handle that no call has returned.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.calls = 0
        self._creators: dict[int, int] = {}  # calls by the handle they returned
        self._parents: dict[int, int] = {}  # handles by the handle they were created with
        self._changes: dict[int, list[int]] = {}  # calls that changed a handle
        self._shared: dict[int, dict[int, int]] = {}  # by graph: context tensors, first use
        self._exchanged: set[int] = set()  # context tensors that executes may write
        self._written: dict[int, set[int]] = {}  # by graph: those that its nodes write
        self._stateful: set[int] = set()  # graphs with state between executes
        self._kinds: dict[int, str] = {}  # by handle
        self._uses: list[tuple[_Use, ...]] = []
        self._failed: set[int] = set()
        known: dict[tuple[_Use, ...], tuple[_Use, ...]] = {}
        for entry in entries:
            record = entry.record
            if not isinstance(record, CallRecord | OpaqueRecord):
                continue
            uses = () if isinstance(record, OpaqueRecord) else self._note(record, entry)
            self._uses.append(known.setdefault(uses, uses))
            self.calls += 1

    def closure(self, chosen: Iterable[int]) -> set[int]:
        """Return calls with all that they depend on."""
        found: set[int] = set()
        waiting = sorted(set(chosen))
        states: dict[int, int] = {}  # by handle: the call up to which its changes were added

        def need(handle: int, at: int, is_state: bool) -> None:
            waiting.append(self._creators[handle])
            parent = self._parents.get(handle)
            if parent is not None:
                need(parent, at, True)
            before = states.get(handle, -1)
            if not is_state or before >= at:
                return
            states[handle] = at
            changes = self._changes.get(handle, [])
            waiting.extend(changes[bisect_left(changes, before) : bisect_left(changes, at)])
            for tensor, since in self._shared.get(handle, {}).items():
                if since <= at:
                    need(tensor, at, True)

        users = self._by_handle() if self._failed else {}
        related: dict[int, int] = {}  # by handle: the call up to which its users were added

        while waiting:
            index = waiting.pop()
            if index in found:
                continue
            found.add(index)
            for handle, is_state in self._uses[index]:
                need(handle, index, is_state)
            if index in self._failed:
                waiting.extend(self._related(index, users, related))
        return found

    def uses(self, index: int) -> frozenset[int]:
        """Return the handles that a call uses."""
        return frozenset(handle for handle, _ in self._uses[index])

    def created(self) -> dict[int, int]:
        """Return the call that returned each handle."""
        return dict(self._creators)

    def _related(
        self, failed: int, users: dict[int, list[int]], related: dict[int, int]
    ) -> Iterator[int]:
        """Yield earlier calls on the handles of a call that failed: any may be the reason.

        Args:
            failed: The call.
            users: Calls by the handles that they use.
            related: By handle, the call up to which its users were yielded before.
        """
        waiting = [handle for handle, _ in self._uses[failed]]
        while waiting:
            handle = waiting.pop()
            before = related.get(handle, -1)
            if before < failed:
                related[handle] = failed
                every = users.get(handle, [])
                yield from every[bisect_left(every, before) : bisect_left(every, failed)]
                waiting += [self._parents[handle]] if handle in self._parents else []

    def _by_handle(self) -> dict[int, list[int]]:
        """Return the calls that use each handle, in order."""
        found: dict[int, list[int]] = {}
        for index, uses in enumerate(self._uses):
            for handle, _ in uses:
                found.setdefault(handle, []).append(index)
        return found

    def _note(self, record: CallRecord, entry: Entry) -> tuple[_Use, ...]:
        """Note what a call changes and returns, and return what it uses."""
        index, function, owner = self.calls, record.function, record.owner
        arguments = typed_arguments(record, entry.where)
        uses: list[_Use] = [] if owner is None else [(owner, True)]
        uses += self._argument_uses(record, arguments)
        if unknown := [h for h, _ in uses if h not in self._creators]:
            raise TraceError(f"no call has returned the handle {min(unknown)}", where=entry.where)
        if owner is not None and self._kinds[owner] != API[function].owner:
            raise TraceError(f"'{function}' is not a call of handle {owner}", where=entry.where)
        if record.error is not None:
            self._failed.add(index)
        elif owner is not None:
            self._note_changes(function, owner, arguments, [h for h, _ in uses[1:]])
        number = returned_handle(record, entry.where)
        if number is not None and number not in self._creators:
            self._create(number, record, arguments)
        return tuple(dict.fromkeys(uses))

    def _create(self, number: int, record: CallRecord, arguments: Any) -> None:
        """Note the handle that a call has returned."""
        result = API[record.function].result
        self._creators[number] = self.calls
        self._kinds[number] = "" if result is None else str(result.of)
        if record.owner is not None:
            self._parents[number] = record.owner
        is_shared = record.function == "context_create_tensor"
        if is_shared and arguments.kind is TensorKind.APP_READWRITE:
            self._exchanged.add(number)

    def _argument_uses(self, record: CallRecord, arguments: Any) -> Iterator[_Use]:
        for name, value in API[record.function].args.items():
            given = getattr(arguments, name)
            if value.kind is ArgKind.HANDLE and given is not None:
                many = given if isinstance(given, tuple) else (given,)
                yield from ((h, value.of == "signal") for h in many if isinstance(h, int))
                if value.of == "profile" and isinstance(given, int):
                    self._change(given)
            elif value.kind in (ArgKind.INPUTS, ArgKind.OUTPUTS) and isinstance(given, dict):
                is_input = value.kind is ArgKind.INPUTS
                yield from self._memory(given.values(), record, is_input=is_input)

    def _memory(
        self, buffers: Iterable[object], record: CallRecord, *, is_input: bool
    ) -> Iterator[_Use]:
        """Yield the registered memory of a call; its content matters if it was not recorded."""
        for each in buffers:
            if not isinstance(each, MemoryValue):
                continue
            start = len(record.payloads) if each.payload is None else each.payload
            is_known = record.payloads[start : start + 1] not in ((), (NOT_RECORDED,))
            yield each.handle, is_input and not is_known
            if not is_input:
                self._change(each.handle)

    def _note_changes(
        self, function: str, owner: int, arguments: Any, handles: Sequence[int]
    ) -> None:
        """Note the handles that a call changes, its profile and its memory apart.

        Args:
            function: Its name.
            owner: The handle it is made on.
            arguments: Its arguments.
            handles: The handles among them.
        """
        shared = self._shared.setdefault(owner, {}) if API[function].owner == "graph" else {}
        if function in _CHANGES_OWNER:
            self._change(owner)
        if function == "context_update_tensor" and handles:
            self._change(handles[0])
        elif function == "graph_add_node":
            for tensor in handles:
                if self._parents.get(tensor) != owner:
                    shared.setdefault(tensor, self.calls)
            self._written.setdefault(owner, set()).update(
                h for h in arguments.outputs or () if h in self._exchanged
            )
            if arguments.op_type in _STATEFUL:
                self._stateful.add(owner)
        elif function in EXECUTES:
            for changed in (*self._stateful & {owner}, *self._written.get(owner, ())):
                self._change(changed)

    def _change(self, handle: int) -> None:
        """Note that the current call changes a handle."""
        changes = self._changes.setdefault(handle, [])
        if not changes or changes[-1] != self.calls:
            changes.append(self.calls)
