"""The player: makes recorded calls again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dovetail.container import Closing
from dovetail.errors import TraceError
from dovetail.ir import Array
from dovetail.runtime.api_table import API, ApiFunction, ArgKind
from dovetail.runtime.backend import Backend
from dovetail.runtime.calls.decoding import Scene, decode_arguments
from dovetail.runtime.calls.payloads import PayloadSource, RecordedBlobs
from dovetail.runtime.calls.record import CallRecord, CompletionRecord, Record
from dovetail.runtime.calls.references import BackendReference
from dovetail.runtime.calls.repeated import RepeatedExecutions
from dovetail.runtime.calls.resolver import Resolver
from dovetail.runtime.calls.values import recorded_result
from dovetail.runtime.graph import Graph
from dovetail.runtime.handle import Handle
from dovetail.runtime.log import Log
from dovetail.runtime.memory import Memory
from dovetail.runtime.queue import Execution

LIMIT_BYTES = 1 << 32

_CREATORS: Mapping[str, type[Handle]] = {cls.kind: cls for cls in (Backend, Log)}


class Played(msgspec.Struct, frozen=True, eq=False):
    """The outcome of a call that was made again.

    Attributes:
        record: The record.
        result: What it returned; for the end of an asynchronous execution, its outputs.
        error: The error that it raised instead.
    """

    record: Record
    result: object = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Running:
    """An asynchronous execution, and the outputs that it writes."""

    execution: Execution
    outputs: Mapping[str, object]


class Player(Closing):
    """A player of recorded calls, in the order of their records; a context manager.

    Callbacks and watches of the application are replaced by some that do nothing. Leaving the
    player frees the handles that the records leave alive.

    Args:
        payloads: Finds payloads by key.
        resolver: Finds backends and op packages by name.
        limit_bytes: Maximum size of an array.
    """

    def __init__(
        self, payloads: PayloadSource, resolver: Resolver, limit_bytes: int = LIMIT_BYTES
    ) -> None:
        self._payloads = payloads
        self._resolver = resolver
        self._limit_bytes = limit_bytes
        self._handles: dict[int, Handle] = {}
        self._running: dict[int, _Running] = {}
        self._repeated = RepeatedExecutions()

    def play(self, record: Record, where: str = "") -> Played:
        """Make a call again, or wait for the end of an asynchronous execution.

        Args:
            record: The record.
            where: Its file and number, for errors.

        Raises:
            TraceError: The record refers to what does not exist. Errors of the call itself are not
                raised, but returned.
        """
        where = where or f"call {record.number}"
        if isinstance(record, CompletionRecord):
            return self._wait(record, where)
        graph, known = self._handles.get(record.owner or -1), self._repeated.get(record)
        if known is not None and isinstance(graph, Graph):  # most calls of most traces
            try:
                return Played(record, graph.execute(**known))
            except Exception as error:  # noqa: BLE001 - an outcome like any other
                return Played(record, error=error)
        scene = Scene(
            self._handles,
            RecordedBlobs(record.payloads, self._payloads, where),
            self._resolver,
            self._limit_bytes,
            where,
        )
        function = API[record.function]
        owner = self._owner(function, record, scene)
        arguments = decode_arguments(record, scene)
        self._resolve_backend(function, arguments)
        try:
            result = getattr(owner, function.method)(**arguments)
        except Exception as error:  # noqa: BLE001 - an outcome like any other
            return Played(record, error=error)
        self._repeated.add(record, arguments)
        self._remember(function, record, arguments, result, where)
        return Played(record, result)

    def handle(self, number: int | None) -> Handle | None:
        """Return the handle that was recorded with a number; None if no call has returned it."""
        return None if number is None else self._handles.get(number)

    def close(self) -> None:
        """Free the handles that are still alive, the backends with all that they own."""
        for handle in tuple(self._handles.values()):
            if isinstance(handle, Backend):
                handle.close()
            elif isinstance(handle, Log) and not handle.is_freed:
                handle.free()

    def _owner(
        self, function: ApiFunction, record: CallRecord, scene: Scene
    ) -> Handle | type[Handle]:
        """Return what a call is made on."""
        if not function.owner and function.result is not None:
            return _CREATORS[str(function.result.of)]
        if record.owner is None:
            raise scene.error(f"'{function.name}' has no owner")
        owner = scene.handle(record.owner)
        if owner.kind != function.owner:
            raise scene.error(f"'{function.name}' is not a call of {owner.describe()}")
        return owner

    def _resolve_backend(self, function: ApiFunction, arguments: dict[str, Any]) -> None:
        for name, value in function.args.items():
            if value.kind is ArgKind.BACKEND and isinstance(arguments[name], BackendReference):
                arguments[name], arguments["config"] = self._resolver.backend(
                    arguments[name], arguments["config"]
                )

    def _remember(
        self,
        function: ApiFunction,
        record: CallRecord,
        arguments: Mapping[str, Any],
        result: object,
        where: str,
    ) -> None:
        """Keep what later records refer to."""
        if isinstance(result, Execution):
            # memory may be deregistered before the end is played
            outputs = {name: _array(each) for name, each in arguments["outputs"].items()}
            self._running[record.number] = _Running(result, outputs)
        if not isinstance(result, Handle):
            return
        number = recorded_result(record, where)
        if number is None:
            return  # the recorded call failed
        if self._handles.get(number, result) is not result:
            raise TraceError(f"two calls have returned the handle {number}", where=where)
        self._handles[number] = result

    def _wait(self, record: CompletionRecord, where: str) -> Played:
        running = self._running.pop(record.number, None)
        if running is None:
            raise TraceError("no asynchronous execution has this number", where=where)
        try:
            running.execution.wait()
        except Exception as error:  # noqa: BLE001 - an outcome like any other
            return Played(record, error=error)
        return Played(record, running.outputs)


def _array(buffer: object) -> Array | object:
    return buffer.descriptor.array if isinstance(buffer, Memory) else buffer
