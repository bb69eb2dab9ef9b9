"""The handles that recorded calls use and return."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.runtime.api_table import API, ArgKind
from dovetail.runtime.calls import CallRecord
from dovetail.runtime.calls.values import MemoryValue, recorded_result, typed_arguments

# Calls that run a graph; their inputs and outputs are payloads.
EXECUTES = ("graph_execute", "graph_execute_async")
_HANDLES: dict[str, tuple[str, ...]] = {}
_BUFFERS: dict[str, tuple[str, ...]] = {}
for _name, _function in API.items():
    _kinds = {name: value.kind for name, value in _function.args.items()}
    _HANDLES[_name] = tuple(n for n, kind in _kinds.items() if kind is ArgKind.HANDLE)
    _BUFFERS[_name] = tuple(
        n for n, kind in _kinds.items() if kind in (ArgKind.INPUTS, ArgKind.OUTPUTS)
    )


def used_handles(record: CallRecord, where: str) -> Iterator[int]:
    """Yield the numbers of the handles that a call needs, its owner's first.

    Raises:
        TraceError: The arguments are not those of the call.
    """
    if record.owner is not None:
        yield record.owner
    handles, buffers = _HANDLES[record.function], _BUFFERS[record.function]
    if not handles and not buffers:
        return
    arguments = typed_arguments(record, where)
    for name in handles:
        given = getattr(arguments, name)
        if isinstance(given, int):
            yield given
        elif isinstance(given, tuple):
            yield from (each for each in given if each is not None)
    for name in buffers:
        given = getattr(arguments, name)
        if isinstance(given, dict):
            yield from (each.handle for each in given.values() if isinstance(each, MemoryValue))


def returned_handle(record: CallRecord, where: str) -> int | None:
    """Return the number of the handle that a call has returned; None if it returned none.

    Raises:
        TraceError: The result is not that of the call.
    """
    result = API[record.function].result
    if result is None or result.kind is not ArgKind.HANDLE or record.error is not None:
        return None
    found = recorded_result(record, where)
    return found if isinstance(found, int) else None
