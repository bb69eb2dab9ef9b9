"""Comparison of a call with its record."""

from __future__ import annotations

from typing import Any

import msgspec

from dovetail.runtime.api_table import ArgKind
from dovetail.runtime.calls.encoding import encode_result, to_json
from dovetail.runtime.calls.payloads import NOT_RECORDED, CallPayloads, Hashes
from dovetail.runtime.calls.player import Played
from dovetail.runtime.calls.record import NULL, ErrorRecord
from dovetail.runtime.calls.values import EventValue, recorded_result, result_value

_NOT_COMPARED = (ArgKind.HANDLE, ArgKind.EXECUTION)


def differences(played: Played) -> tuple[str, ...]:
    """Return how a call differs from its record; empty if it did the same.

    Errors are compared by class and code, arrays by type, shape and bytes, events of profiles by
    everything but their measured values. What was not recorded is not compared.
    """
    record, error = played.record, played.error
    recorded = "no error" if record.error is None else _named(record.error)
    found = "no error" if error is None else _named(ErrorRecord.of(error))
    if recorded != found:
        return (f"expected {recorded}, got {found}{'' if error is None else f': {error}'}",)
    value, wanted = result_value(record), recorded_result(record, f"call {record.number}")
    if value is None or wanted is None or error is not None or value.kind in _NOT_COMPARED:
        return ()
    payloads = CallPayloads(Hashes())
    again = to_json(encode_result(getattr(record, "function", ""), played.result, payloads)) or NULL
    encoded = msgspec.structs.replace(record, result=again, payloads=tuple(payloads.keys))
    result = recorded_result(encoded, "the call made again")
    if value.kind is ArgKind.RESULTS:
        return tuple(_array_differences(wanted, record.payloads, result or {}, payloads.keys))
    if value.kind is ArgKind.BINARY:
        key = record.payloads[wanted.payload]
        same = result is not None and key in (NOT_RECORDED, payloads.keys[result.payload])
        return () if same else ("the binary has other bytes",)
    if value.kind is ArgKind.EVENT:
        wanted, result = _outline(wanted), _outline(result)
    return () if wanted == result else (f"expected {wanted}, got {result}",)


def _named(error: ErrorRecord) -> str:
    return f"{error.type} {error.code}".strip()


def _array_differences(
    wanted: Any, wanted_keys: tuple[str, ...], found: Any, found_keys: list[str]
) -> list[str]:
    texts = [f"output '{name}' is missing" for name in wanted if name not in found]
    texts += [f"output '{name}' was not recorded" for name in found if name not in wanted]
    for name in wanted.keys() & found.keys():
        one, other = wanted[name], found[name]
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            texts.append(
                f"output '{name}': expected {one.dtype} {one.shape}, "
                f"got {other.dtype} {other.shape}"
            )
            continue
        key = NOT_RECORDED if one.payload is None else wanted_keys[one.payload]
        if key not in (NOT_RECORDED, found_keys[other.payload]):
            texts.append(f"output '{name}' has other values")
    return texts


def _outline(events: EventValue | tuple[EventValue, ...]) -> list[tuple[int, int, str, int]]:
    """Return depth, type, identifier and unit of events and their children."""
    top = events if isinstance(events, tuple) else (events,)
    waiting, found = [(0, each) for each in reversed(top)], []
    while waiting:
        depth, event = waiting.pop()
        found.append((depth, event.type, event.identifier, event.unit))
        waiting += ((depth + 1, each) for each in reversed(event.children))
    return found
