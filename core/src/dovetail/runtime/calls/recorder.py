"""The hook that records calls."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from dovetail.plugins.events import ApiCall
from dovetail.plugins.hookspecs import hookimpl
from dovetail.runtime.api_table import API, ArgKind, Value
from dovetail.runtime.calls.encoding import encode_arguments, encode_result
from dovetail.runtime.calls.payloads import CallPayloads, Payloads
from dovetail.runtime.calls.record import CallRecord, CompletionRecord, ErrorRecord, Record
from dovetail.runtime.handle import Handle

_RESULTS = Value(ArgKind.RESULTS)


class CallRecorder:
    """Records every call of the runtime API while it is registered with the hooks.

    A call is recorded when it returns; its arguments are read before it. The end of an asynchronous
    execution is a record of its own, after that of the call.

    Args:
        write: Receives the records, one at a time.
        payloads: Receives the payloads of a record before the record.
    """

    def __init__(self, write: Callable[[Record], None], payloads: Payloads) -> None:
        self._write = write
        self._payloads = payloads
        self._lock = threading.Lock()
        self._open: dict[int, CallRecord] = {}  # calls that have not returned
        self._early: dict[int, CompletionRecord] = {}  # ended before their call has returned
        self._threads: dict[int, int] = {}

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        """Read the arguments of a call."""
        with self._lock:
            payloads = CallPayloads(self._payloads)
            arguments, unrecorded = encode_arguments(call.function, call.arguments, payloads)
            self._open[call.number] = CallRecord(
                number=call.number,
                thread=self._thread(),
                function=call.function,
                owner=call.owner.id if isinstance(call.owner, Handle) else None,
                arguments=arguments,
                unrecorded=unrecorded,
                payloads=tuple(payloads.keys),
                start_ns=call.start_ns,
            )

    @hookimpl
    def dovetail_api_return(self, call: ApiCall) -> None:
        """Record a call with its result."""
        with self._lock:
            record = self._open.pop(call.number, None)
            if record is None:
                return  # it began before the recorder was registered
            payloads = CallPayloads(self._payloads, record.payloads)
            result = encode_result(API[call.function].result, call.result, payloads)
            self._write(
                msgspec.structs.replace(
                    record,
                    result=result,
                    payloads=tuple(payloads.keys),
                    error=None if call.error is None else ErrorRecord.of(call.error),
                    duration_ns=call.duration_ns or 0,
                )
            )
            early = self._early.pop(call.number, None)
            if early is not None:
                self._write(early)

    @hookimpl
    def dovetail_api_complete(self, call: ApiCall) -> None:
        """Record the end of an asynchronous execution."""
        with self._lock:
            payloads = CallPayloads(self._payloads)
            result = encode_result(_RESULTS, call.result, payloads)
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
                self._write(record)

    def _thread(self) -> int:
        return self._threads.setdefault(threading.get_ident(), len(self._threads))
