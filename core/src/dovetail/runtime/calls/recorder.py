"""The hook that records calls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
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
# payloads with the count of those of the arguments, and the thread.
_Open = tuple[Any, dict[str, str], CallPayloads, int, int]


class CallRecorder:
    """Records every call of the runtime API while it is registered with the hooks.

    A call is recorded when it returns; its arguments are read before it. The end of an asynchronous
    execution is a record of its own, after that of the call. Calls of a signal handler that
    interrupts the recorder are recorded after what it interrupted; their arguments are read then.
    A KeyboardInterrupt in the recorder is raised after the record has been written, once.

    Args:
        write: Receives the records as lines of JSON without their ends, one at a time.
        payloads: Receives the payloads of a record before the record. After an interrupt, it may
            receive them again.
        failed: Receives the error of one of these. It is raised then, so that the hooks detach the
            recorder; nothing more is recorded.
        is_last: Returns whether a line is the last one that was written. Asked after an interrupt
            of `write`, which must write all of a line or nothing.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        payloads: Payloads,
        failed: Callable[[BaseException], None] = lambda _: None,
        is_last: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self._write = write
        self._payloads = payloads
        self._failed = failed
        self._is_last = is_last
        self._is_closed = False
        self._lock = threading.RLock()
        self._is_busy = False
        self._is_interrupted = False  # the step that is made was interrupted
        self._waiting: deque[tuple[Callable[[ApiCall], None], ApiCall]] = deque()
        self._open: dict[int, _Open] = {}
        self._early: dict[int, CompletionRecord] = {}  # ended before their call has returned
        self._threads = 0
        self._this_thread = threading.local()  # its number
        self._inherit: Callable[[], None] | None = None
        self._first_own = 0  # number of the first handle of this process

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
        interrupt = None
        with self._lock:
            if self._is_busy:  # a signal handler makes a call while its thread records another
                self._waiting.append((step, call))
                return
            self._is_busy = True
            try:
                if not self._is_closed:
                    step(call)
            except KeyboardInterrupt as error:
                interrupt, self._is_interrupted = error, True
                self._waiting.appendleft((step, call))
            except BaseException as error:
                self._stop(error)
                raise
            finally:
                if self._waiting:
                    interrupt = self._make_waiting() or interrupt
                self._is_busy = False
        if interrupt is not None:
            raise interrupt

    def _make_waiting(self) -> KeyboardInterrupt | None:
        """Make the steps that wait; return an interrupt, which must not keep one from its end."""
        interrupt = None
        while self._waiting and not self._is_closed:
            try:
                step, call = self._waiting[0]
                step(call)
                self._waiting.popleft()
            except KeyboardInterrupt as error:
                interrupt, self._is_interrupted = error, True
            except BaseException as error:
                self._is_busy = False
                self._stop(error)
                raise
            else:
                self._is_interrupted = False
        return interrupt

    def _stop(self, error: BaseException) -> None:
        """Record nothing more."""
        self._is_closed = True
        self._waiting.clear()
        self._failed(error)

    def forked(self, inherit: Callable[[], None] | None = None) -> None:
        """Go on in a process that was forked; it has no other threads than this one.

        Args:
            inherit: Records what the parent had recorded before the fork. Called before the first
                call that uses a handle of the parent; if there is none, never.
        """
        self._lock = threading.RLock()  # another thread of the parent may have held it
        self._is_busy = self._is_interrupted = False
        self._waiting.clear()
        thread = self._thread()
        self._open = {number: begun for number, begun in self._open.items() if begun[-1] == thread}
        self._early.clear()
        self._inherit, self._first_own = inherit, Handle().id

    def close(self) -> None:
        """Record nothing more; returns after the record that is being written."""
        with self._lock:
            self._is_closed = True

    def _begin(self, call: ApiCall) -> None:
        if self._inherit is not None and _uses_older(call, self._first_own):
            self._inherit()
            self._inherit = None
        payloads = CallPayloads(self._payloads, _has_outputs(call))
        arguments, unrecorded = encode_arguments(call.function, call.arguments, payloads)
        given = len(payloads.keys)
        self._open[call.number] = arguments, unrecorded, payloads, given, self._thread()

    def _end(self, call: ApiCall) -> None:
        begun = self._open.get(call.number)
        if begun is not None:  # it began after the recorder was registered
            self._write_once(_line(_call_record(call, begun)))
            del self._open[call.number]
        if self._early and call.number in self._early:
            self._write_once(_line(self._early[call.number]))
            del self._early[call.number]

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
            self._write_once(_line(record))

    def _write_once(self, line: bytes) -> None:
        if not (self._is_interrupted and self._is_last(line)):
            self._write(line)

    def _thread(self) -> int:
        """Return the number of this thread; the system gives its own numbers to later threads."""
        try:
            number: int = self._this_thread.number
        except AttributeError:
            number = self._this_thread.number = self._threads
            self._threads += 1
        return number


def _call_record(call: ApiCall, begun: _Open) -> CallRecord:
    """Return the record of a call that has returned."""
    arguments, unrecorded, payloads, given, thread = begun
    del payloads.keys[given:]  # those of the result, if this was interrupted before
    owner, error = call.owner, call.error
    result = encode_result(call.function, call.result, payloads)
    return CallRecord(
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


def _uses_older(call: ApiCall, first: int) -> bool:
    """Return whether a call uses a handle with a number below `first`."""
    waiting = [call.owner, *call.arguments.values()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Handle):
            if value.id < first:
                return True
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return False
