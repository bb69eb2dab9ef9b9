"""The events that hooks receive: one small frozen type for each kind.

Buffers in an event (arguments, results, outputs) are valid only while the hook runs: a hook that
needs the data later copies it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping

import msgspec

_numbers = itertools.count(1)


class ApiCall(msgspec.Struct, frozen=True, eq=False):
    """A call of the runtime API: started, returned or completed.

    Attributes:
        number: Number of the call in this process; all events of one call share it.
        function: Name of the function in the API table.
        owner: The handle that it is called on; None for a function that creates a first handle.
        arguments: All arguments by name, in the order of the table, defaults included.
        result: The return value; None before the return, and after an error.
        error: The exception raised instead of a return.
        start_ns: Time of the call, on the clock of `time.perf_counter_ns`.
        duration_ns: Duration of the call; None until it returns.
    """

    number: int
    function: str
    owner: object
    arguments: Mapping[str, object]
    start_ns: int
    result: object = None
    error: BaseException | None = None
    duration_ns: int | None = None

    @classmethod
    def begin(cls, function: str, arguments: Mapping[str, object], owner: object = None) -> ApiCall:
        """Return the event of a call that starts now."""
        return cls(next(_numbers), function, owner, arguments, time.perf_counter_ns())

    def returned(self, result: object) -> ApiCall:
        """Return the event of this call, which returns a result now."""
        return ApiCall(
            self.number, self.function, self.owner, self.arguments, self.start_ns,
            result, None, time.perf_counter_ns() - self.start_ns,
        )  # fmt: skip

    def failed(self, error: BaseException) -> ApiCall:
        """Return the event of this call, which raises an error now."""
        return ApiCall(
            self.number, self.function, self.owner, self.arguments, self.start_ns,
            None, error, time.perf_counter_ns() - self.start_ns,
        )  # fmt: skip


class PassFinished(msgspec.Struct, frozen=True):
    """A pass finished on a graph.

    Attributes:
        graph: Name of the graph.
        name: Name of the pass.
        changed: Whether the pass changed the graph.
        duration_ms: Duration of the pass.
    """

    graph: str
    name: str
    changed: bool
    duration_ms: float


class NodeExecuted(msgspec.Struct, frozen=True):
    """A step of a watched run finished.

    Attributes:
        graph: Name of the graph.
        nodes: Names of the nodes that the step ran; several if they are fused.
        outputs: Tensors that the step wrote, by name: arrays of stored values.
        duration_us: Duration of the step.
    """

    graph: str
    nodes: tuple[str, ...]
    outputs: Mapping[str, object]
    duration_us: float


class Progress(msgspec.Struct, frozen=True):
    """A long task made progress.

    Attributes:
        task: The task, in a few words.
        done: Number of units done.
        total: Number of units in all; None if unknown.
        unit: The unit counted: `inferences`, `graphs`.
    """

    task: str
    done: int
    total: int | None = None
    unit: str = ""
