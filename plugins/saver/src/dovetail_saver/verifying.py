"""Verification of a trace: every line, argument, handle and payload."""

from __future__ import annotations

from pathlib import Path

from dovetail.errors import DovetailError, Problem, TraceError, counted
from dovetail.runtime.api_table import API
from dovetail.runtime.calls import CallRecord
from dovetail.runtime.calls.payloads import NOT_RECORDED
from dovetail.runtime.calls.values import ArrayValue, recorded_result, typed_arguments
from dovetail_saver.trace import Mark, OpaqueRecord, PayloadLine, Trace
from dovetail_saver.trace.header import CALLS_NAME
from dovetail_saver.trace.lines import Line, decode_line
from dovetail_saver.uses import returned_handle, used_handles

_MAX_PROBLEMS = 100


def verify(path: Path) -> int:
    """Check all of a trace and return the number of its calls.

    A trace that is cut off after a whole line is intact.

    Raises:
        TraceError: The trace cannot be read, or has faults; the first 100 are listed.
    """
    trace = Trace(path)
    check = _Check(trace)
    try:
        for number, data in trace.lines():
            where = f"{trace.folder / CALLS_NAME}:{number}"
            try:
                check.line(decode_line(data, where), where)
            except DovetailError as error:
                check.problems.append(Problem(error.message, error.where or where))
            if len(check.problems) >= _MAX_PROBLEMS:
                break
        else:
            check.end()
    except TraceError as error:
        check.problems.append(Problem(error.message, error.where))
    if check.problems:
        raise TraceError(
            f"the trace has {counted(len(check.problems), 'fault')}",
            where=str(path),
            hint="record it again; `dovetail trace trim` keeps the calls that are intact",
            problems=check.problems,
        )
    return check.calls


class _Check:
    """The checks of the lines of a trace in their order."""

    def __init__(self, trace: Trace) -> None:
        self.problems: list[Problem] = []
        self.calls = 0
        self._trace = trace
        self._mark: Mark | None = None
        self._kinds: dict[int, str] = {}  # kinds of handles
        self._unfinished: set[int] = set()

    def line(self, line: Line, where: str) -> None:
        """Check a line.

        Raises:
            DovetailError: It has a fault.
        """
        if self._mark is not None:
            raise TraceError("a line after the end of the trace", where=where)
        if isinstance(line, Mark):
            self._mark = line
        elif isinstance(line, PayloadLine):
            self._payload(line, where)
        elif isinstance(line, OpaqueRecord):
            self.calls += 1
        elif isinstance(line, CallRecord):
            self.calls += 1
            self._call(line, where)
        else:
            if line.number not in self._unfinished:
                raise TraceError(
                    f"no asynchronous execution has the number {line.number}", where=where
                )
            self._unfinished.remove(line.number)
            recorded_result(line, where)

    def end(self) -> None:
        """Check what the last line says."""
        if self._mark is not None and self._mark.calls not in (0, self.calls):
            text = f"the mark counts {self._mark.calls} calls, but there are {self.calls}"
            self.problems.append(Problem(text, str(self._trace.folder)))

    def _payload(self, line: PayloadLine, where: str) -> None:
        if line.key in self._trace.payloads.lines:
            raise TraceError(f"payload {line.key} is there twice", where=where)
        self._trace.payloads.add(line)
        blob = self._trace.payloads.get(line.key)
        if blob is not None:
            _ = blob.bytes  # compares the content with the key

    def _call(self, record: CallRecord, where: str) -> None:
        function = API[record.function]
        if function.ends_later and record.error is None:
            self._unfinished.add(record.number)
        typed_arguments(record, where)
        recorded_result(record, where)
        number = returned_handle(record, where)
        unknown = [h for h in used_handles(record, where) if h not in self._kinds]
        if number is not None and function.result is not None:
            self._kinds.setdefault(number, str(function.result.of))
        if unknown:
            raise TraceError(f"no call has returned the handle {unknown[0]}", where=where)
        if record.owner is None:
            if function.owner:
                raise TraceError(f"'{function.name}' has no owner", where=where)
        elif self._kinds[record.owner] != function.owner:
            raise TraceError(
                f"'{function.name}' is not a call of handle {record.owner}", where=where
            )
        self._data(record, where)

    def _data(self, record: CallRecord, where: str) -> None:
        """Raise if data that the call needs are missing.

        Keys without a payload are hashes of outputs.
        """
        known = self._trace.payloads.lines
        result = recorded_result(record, where)
        outputs = result.values() if isinstance(result, dict) else ()
        hashed = {v.payload for v in outputs if isinstance(v, ArrayValue)}
        for index, key in enumerate(record.payloads):
            if key != NOT_RECORDED and key not in known and index not in hashed:
                raise TraceError(f"payload {key} is missing", where=where)
