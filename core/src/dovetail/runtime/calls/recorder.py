"""The hook that records calls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.plugins.events import ApiCall
from dovetail.plugins.hookspecs import hookimpl
from dovetail.runtime.calls.encoding import UNFIT, encode_arguments, encode_result, to_json
from dovetail.runtime.calls.payloads import CallPayloads, Payloads
from dovetail.runtime.calls.record import (
    NULL,
    CallRecord,
    CompletionRecord,
    ErrorRecord,
    Record,
    encode_record,
)
from dovetail.runtime.graph import Graph
from dovetail.runtime.handle import Handle

# A call that has not returned: its arguments, the types of those that are not recorded, the
# payloads, and the thread.
_Open = tuple[Any, dict[str, str], CallPayloads, int]


class CallRecorder:
    """Records every call of the runtime API while it is registered with the hooks.

    A call is recorded when it returns; its arguments are read before it. The end of an asynchronous
    execution is a record of its own, after that of the call. Calls of a signal handler that
    interrupts the recorder are recorded after what it interrupted; their arguments are read then.

    Args:
        write: Receives the records as lines of JSON without their ends, one at a time.
        payloads: Receives the payloads of a record before the record.
        failed: Receives the error of one of these. It is raised then, so that the hooks detach the
            recorder; nothing more is recorded.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        payloads: Payloads,
        failed: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        self._write = write
        self._payloads = payloads
        self._failed = failed
        self._is_closed = False
        self._lock = threading.RLock()
        self._is_busy = False
        self._waiting: deque[tuple[Callable[[ApiCall], None], ApiCall]] = deque()
        self._open: dict[int, _Open] = {}
        self._early: dict[int, CompletionRecord] = {}  # ended before their call has returned
        self._threads: dict[int, int] = {}

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        """Read the arguments of a call."""
        self._locked(self._begin, call)

    @hookimpl
    def dovetail_api_return(self, call: ApiCall) -> None:
        """Record a call with its result."""
        self._locked(self._end, call)

    @hookimpl
    def dovetail_api_complete(self, call: ApiCall) -> None:
        """Record the end of an asynchronous execution."""
        self._locked(self._complete, call)

    def _locked(self, step: Callable[[ApiCall], None], call: ApiCall) -> None:
        with self._lock:
            if self._is_busy:  # a signal handler makes a call while its thread records another
                self._waiting.append((step, call))
                return
            self._is_busy = True
            try:
                self._make(step, call)
                while self._waiting:
                    self._make(*self._waiting.popleft())
            finally:
                self._is_busy = False

    def _make(self, step: Callable[[ApiCall], None], call: ApiCall) -> None:
        if self._is_closed:
            return
        try:
            step(call)
        except BaseException as error:
            self._is_closed = True
            self._failed(error)
            raise

    def close(self) -> None:
        """Record nothing more; returns after the record that is being written."""
        with self._lock:
            self._is_closed = True

    def _begin(self, call: ApiCall) -> None:
        payloads = CallPayloads(self._payloads, _has_outputs(call))
        arguments, unrecorded = encode_arguments(call.function, call.arguments, payloads)
        self._open[call.number] = arguments, unrecorded, payloads, self._thread()

    def _end(self, call: ApiCall) -> None:
        begun = self._open.pop(call.number, None)
        if begun is None:
            return  # it began before the recorder was registered
        arguments, unrecorded, payloads, thread = begun
        owner, error = call.owner, call.error
        result = encode_result(call.function, call.result, payloads)
        record = CallRecord(
            number=call.number,
            thread=thread,
            function=call.function,
            owner=owner.id if isinstance(owner, Handle) else None,
            arguments=arguments,  # as JSON in the line: one encoding for all of it
            unrecorded=unrecorded,
            result=result,
            payloads=tuple(payloads.keys),
            error=None if error is None else ErrorRecord.of(error),
            start_ns=call.start_ns,
            duration_ns=call.duration_ns or 0,
        )
        self._write(_line(record))
        if call.number in self._early:
            self._write(_line(self._early.pop(call.number)))

    def _complete(self, call: ApiCall) -> None:
        payloads = CallPayloads(self._payloads, _has_outputs(call))
        result = encode_result("", call.result, payloads)
        record = CompletionRecord(
            number=call.number,
            thread=self._thread(),
            result=result,
            payloads=tuple(payloads.keys),
            error=None if call.error is None else ErrorRecord.of(call.error),
        )
        if call.number in self._open:
            self._early[call.number] = record
        else:
            self._write(_line(record))

    def _thread(self) -> int:
        return self._threads.setdefault(threading.get_ident(), len(self._threads))


def _line(record: Record) -> bytes:
    """Return the line of a record; text and numbers that JSON cannot express are left out."""
    try:
        return encode_record(record)
    except UNFIT:
        changes: dict[str, Any] = {"result": to_json(record.result) or NULL}
        if isinstance(record, CallRecord):
            given: Any = record.arguments
            kept = {name: each for name, each in given.items() if to_json(each) is not None}
            unfit = {name: type(given[name]).__name__ for name in given if name not in kept}
            changes |= {"arguments": kept, "unrecorded": record.unrecorded | unfit}
        return encode_record(msgspec.structs.replace(record, **changes))


def _has_outputs(call: ApiCall) -> bool:
    """Return whether the outputs of a call, if it has any, are results of a computation."""
    owner = call.owner
    return not (isinstance(owner, Graph) and owner.context.backend.capabilities.records_only)
