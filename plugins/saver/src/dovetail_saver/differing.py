"""Differences of two traces: calls that only one has, and calls with other data."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail.runtime.calls.payloads import NOT_RECORDED
from dovetail.runtime.calls.values import ArrayValue, MemoryValue, recorded_result, typed_arguments
from dovetail_saver.describing import HandleNames, describe, describe_call
from dovetail_saver.trace import Entry, OpaqueRecord, Trace

_AHEAD = 256  # calls of each trace among which the next common one is searched for
_WHOLE = 1 << 20  # characters of an argument that are compared
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A difference.

    Attributes:
        kind: `-` for a call of the first trace only, `+` for one of the second only, `!` for a
            call of both with other data.
        call: Its number, in the first trace if both have it.
        text: The call, or what is different.
    """

    kind: str
    call: int
    text: str


@dataclass(frozen=True, slots=True)
class _Call:
    entry: Entry
    key: _Key
    text: str


def differences(first: Path, second: Path) -> Iterator[Change]:
    """Yield how two traces differ. Times, threads and numbers of handles do not count.

    Calls are the same if their names, arguments and errors are. Values that one trace did not
    record are not compared.

    Raises:
        TraceError: A trace is invalid.
    """
    sides = (_Side(first), _Side(second))
    while True:
        for side in sides:
            side.fill(1)
        one, other = (side.calls[0] if side.calls else None for side in sides)
        if one is None and other is None:
            return
        if one is not None and other is not None and one.key == other.key:
            yield from _data_changes(one.entry, other.entry)
            for side in sides:
                side.calls.popleft()
            continue
        counts = _next_common(*sides)
        for side, kind, count in zip(sides, "-+", counts, strict=True):
            for _ in range(count):
                call = side.calls.popleft()
                yield Change(kind, call.entry.index, call.text)


class _Side:
    """The calls of one trace, those ahead of the comparison in memory."""

    def __init__(self, path: Path) -> None:
        self.calls: deque[_Call] = deque()
        self._entries = Trace(path).entries(payloads=False)
        self._names = HandleNames()

    def fill(self, count: int) -> None:
        """Read calls until there are `count`, or the trace ends."""
        while len(self.calls) < count:
            entry = next(self._entries, None)
            if entry is None:
                return
            record = entry.record
            call = describe_call(record, self._names, _WHOLE)
            error = None if isinstance(record, OpaqueRecord) else record.error
            outcome = "" if error is None else f"{error.type} {error.code}"
            text = describe(record, self._names)
            self.calls.append(_Call(entry, (call, outcome), text))


def _next_common(one: _Side, other: _Side) -> tuple[int, int]:
    """Return how many calls of each side precede the next common one."""
    for side in (one, other):
        side.fill(_AHEAD)
    where: dict[_Key, int] = {}
    for index, call in enumerate(other.calls):
        where.setdefault(call.key, index)
    best = (len(one.calls), len(other.calls))
    for index, call in enumerate(one.calls):
        if index >= sum(best):
            break
        found = where.get(call.key)
        if found is not None and index + found < sum(best):
            best = (index, found)
    return best


def _data_changes(one: Entry, other: Entry) -> Iterator[Change]:
    """Yield the difference of the payloads of a call that both traces have."""
    record, second = one.record, other.record
    if isinstance(record, OpaqueRecord) or isinstance(second, OpaqueRecord):
        return
    wrong = [
        index
        for index, pair in enumerate(zip(record.payloads, second.payloads, strict=False))
        if NOT_RECORDED not in pair and pair[0] != pair[1]
    ]
    if wrong:
        names = _payload_names(record, one.where)
        what = ", ".join(dict.fromkeys(names.get(index, "data") for index in wrong))
        name = record.function if isinstance(record, CallRecord) else "end of the execution"
        yield Change("!", one.index, f"{name}: other values of {what}")


def _payload_names(record: CallRecord | CompletionRecord, where: str) -> dict[int, str]:
    """Return the inputs and outputs of an execution by the index of their payload."""
    found: dict[int, str] = {}
    groups = {"output": recorded_result(record, where)}
    if isinstance(record, CallRecord):
        groups["input"] = getattr(typed_arguments(record, where), "inputs", None)
    for kind, values in groups.items():
        if isinstance(values, dict):
            for name, value in values.items():
                if isinstance(value, ArrayValue | MemoryValue) and value.payload is not None:
                    found[value.payload] = f"{kind} '{name}'"
    return found
