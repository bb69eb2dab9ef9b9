"""What hooks are told: one small frozen type for each kind of event.

Buffers in an event (arguments, results, outputs) are valid while the hook runs and not after: a
hook that keeps data copies them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of the runtime API: made, returned, or completed.

    Attributes:
        number: Counts calls in this process; the events of one call share it.
        function: Name of the call in the API table.
        arguments: By name, as the caller gave them.
        result: What it returned; None before, and after an error.
        error: What it raised instead.
        start_ns: When it was made, on the clock of `time.perf_counter_ns`.
        duration_ns: How long it took; None until it returned.
    """

    number: int
    function: str
    arguments: Mapping[str, object]
    result: object = None
    error: BaseException | None = None
    start_ns: int = field(default_factory=time.perf_counter_ns)
    duration_ns: int | None = None

    @classmethod
    def begin(cls, function: str, arguments: Mapping[str, object]) -> ApiCall:
        """Return the event of a call that is being made now."""
        return cls(next(_numbers), function, arguments)

    def returned(self, result: object) -> ApiCall:
        """Return the event of its return, now."""
        return replace(self, result=result, duration_ns=time.perf_counter_ns() - self.start_ns)

    def failed(self, error: BaseException) -> ApiCall:
        """Return the event of its failure, now."""
        return replace(self, error=error, duration_ns=time.perf_counter_ns() - self.start_ns)


@dataclass(frozen=True, slots=True)
class PassFinished:
    """A pass went over a graph.

    Attributes:
        graph: Name of the graph.
        name: Name of the pass.
        changed: Whether it changed the graph.
        duration_ms: How long it took.
    """

    graph: str
    name: str
    changed: bool
    duration_ms: float


@dataclass(frozen=True, slots=True)
class NodeExecuted:
    """A step of a watched run ended.

    Attributes:
        graph: Name of the graph.
        nodes: Names of the nodes that the step ran; several where they are fused.
        outputs: Tensors it wrote, by name: arrays of stored values.
        duration_us: How long it took.
    """

    graph: str
    nodes: tuple[str, ...]
    outputs: Mapping[str, object]
    duration_us: float


@dataclass(frozen=True, slots=True)
class Progress:
    """A long task got further.

    Attributes:
        task: What is being done, in a few words.
        done: How much of it is.
        total: How much there is; None where that is not known.
        unit: What is counted: `inferences`, `graphs`.
    """

    task: str
    done: int
    total: int | None = None
    unit: str = ""
