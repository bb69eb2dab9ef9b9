"""Statistics of a trace: calls, times, errors and payloads.

Only the fields that are counted are decoded; memory does not grow with the calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from dovetail.errors import TraceError
from dovetail_saver.trace import Trace
from dovetail_saver.trace.header import CALLS_NAME

_MAX_NAMES = 10_000  # functions, threads: more of them are counted together
_OTHER = "others"
_LAST = 2**63 - 1
_Time = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _Error(msgspec.Struct):
    """An error, of which nothing is read."""


class _Call(msgspec.Struct, tag_field="record", tag="call", gc=False):
    function: str
    thread: _Time = 0
    start_ns: _Time = 0
    duration_ns: _Time = 0
    error: _Error | None = None


class _Completion(msgspec.Struct, tag_field="record", tag="completion", gc=False):
    error: _Error | None = None


class _Opaque(msgspec.Struct, tag_field="record", tag="opaque", gc=False):
    name: str
    thread: _Time = 0


class _Payload(msgspec.Struct, tag_field="record", tag="payload", gc=False):
    size: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _End(msgspec.Struct, tag_field="record", tag="end", gc=False):
    reason: str = ""


_Slim = _Call | _Completion | _Opaque | _Payload | _End
_decode = msgspec.json.Decoder(_Slim).decode


@dataclass(slots=True)
class FunctionStatistics:
    """The calls of one function.

    Attributes:
        calls, errors: Counts.
        total_ns, max_ns: Sum and maximum of their durations.
    """

    calls: int = 0
    errors: int = 0
    total_ns: int = 0
    max_ns: int = 0


@dataclass(slots=True)
class Statistics:
    """The statistics of a trace.

    Attributes:
        functions: By name, in order of first use.
        threads: Count of calls by thread.
        calls, errors: Counts; errors of asynchronous ends included.
        span_ns: Time from the first call to the end of the last.
        payloads, payload_bytes: Count and size of payloads.
        end: How the trace ends.
    """

    functions: dict[str, FunctionStatistics] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    errors: int = 0
    span_ns: int = 0
    payloads: int = 0
    payload_bytes: int = 0
    end: str = "cut off"


def statistics(trace: Trace) -> Statistics:
    """Return the statistics of a trace.

    Raises:
        TraceError: The trace is invalid.
    """
    found = Statistics()
    functions = found.functions
    by_thread: dict[int, int] = {}
    first, last = _LAST, 0
    for line in _lines(trace):
        if not isinstance(line, _Call):
            _count(line, found)
            continue
        start, duration = line.start_ns, line.duration_ns
        entry = functions.get(line.function) or _entry(functions, line.function)
        entry.calls += 1
        entry.errors += line.error is not None
        entry.total_ns += duration
        entry.max_ns = max(duration, entry.max_ns)
        first, last = min(start, first), max(start + duration, last)
        thread = line.thread if line.thread in by_thread or len(by_thread) < _MAX_NAMES else -1
        by_thread[thread] = by_thread.get(thread, 0) + 1
    found.threads = {_OTHER if n < 0 else str(n): count for n, count in by_thread.items()}
    found.calls = sum(entry.calls for entry in functions.values())
    found.errors += sum(entry.errors for entry in functions.values())
    found.span_ns = max(0, last - first)
    return found


def _count(line: _Completion | _Opaque | _Payload | _End, found: Statistics) -> None:
    """Count a line that is not a call of the API table."""
    if isinstance(line, _Payload):
        found.payloads += 1
        found.payload_bytes += line.size
    elif isinstance(line, _Completion):
        found.errors += line.error is not None
    elif isinstance(line, _Opaque):
        _entry(found.functions, line.name).calls += 1
    else:
        found.end = f"ended early: {line.reason}" if line.reason else "complete"


def _entry(functions: dict[str, FunctionStatistics], name: str) -> FunctionStatistics:
    if name not in functions and len(functions) >= _MAX_NAMES:
        name = _OTHER
    return functions.setdefault(name, FunctionStatistics())


def _lines(trace: Trace) -> Iterator[_Slim]:
    for number, data in trace.lines():
        try:
            yield _decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            where = f"{trace.folder / CALLS_NAME}:{number}"
            raise TraceError(f"not a record of a call: {error}", where=where) from error
