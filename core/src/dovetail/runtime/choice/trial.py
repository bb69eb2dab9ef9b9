"""Trial: prepared plans run in alternating bursts on generated inputs, and are timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.container import aligned_empty
from dovetail.errors import BackendError, DovetailError
from dovetail.ir import Array
from dovetail.ops import from_real
from dovetail.runtime.choice.candidates import reason_of
from dovetail.runtime.contract import RunControl
from dovetail.runtime.interface import Endpoint, Interface
from dovetail.runtime.placement.prepared import HeteroPrepared
from dovetail.runtime.plugin_errors import translate_errors

ROUNDS = 9  # bursts of each; the median of an odd number is one of them
_SLOWER = 4.0  # the first run of a candidate may take as many times as long as the fastest one's
_FAR = 1.5  # a candidate whose fastest burst is slower than the fastest by more is out


@dataclass(slots=True)
class Entry:
    """A prepared plan in a trial.

    Attributes:
        name: Its name.
        prepared: The prepared graph.
        can_stop: Whether its runs end when a control says so.
        failed: Why it was not measured to the end; empty if it was.
        times: Seconds of an inference in each burst.
    """

    name: str
    prepared: HeteroPrepared
    can_stop: bool
    failed: str = ""
    times: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """Median seconds of an inference; None if it was not measured."""
        return statistics.median(self.times) if self.times else None


def measure(
    entries: Sequence[Entry],
    seconds: float,
    check: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Measure plans of one graph in alternating bursts.

    Each runs for about `seconds`, and at least once after a first run that is not counted. One that
    is clearly slower than the fastest is left out of later bursts.

    Args:
        entries: The plans; times and failures are added to them.
        seconds: Duration for each.
        check: Called between runs; an error of it ends the trial.
        clock: Returns the time in seconds.
    """
    _Trial(entries, seconds, check, clock).run()


class _Trial:
    def __init__(
        self,
        entries: Sequence[Entry],
        seconds: float,
        check: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._entries = entries
        self._seconds = seconds
        self._check = check
        self._clock = clock
        self._first: dict[str, float] = {}  # seconds of the first run
        interface = entries[0].prepared.interface
        self._inputs, self._outputs = trial_buffers(interface)

    def run(self) -> None:
        for entry in self._entries:
            self._warm_up(entry)
        counts = {name: self._count(first) for name, first in self._first.items()}
        for _ in range(ROUNDS):
            for entry in self._running():
                self._burst(entry, counts[entry.name])
            self._drop_slow()

    def _running(self) -> list[Entry]:
        return [e for e in self._entries if not e.failed and self._is_wanted(e)]

    def _is_wanted(self, entry: Entry) -> bool:
        """Return whether an entry has not used up its time, or has no time yet."""
        return not entry.times or self._first[entry.name] * (len(entry.times) + 1) <= self._seconds

    def _count(self, first: float) -> int:
        """Return the runs of a burst, from the duration of the first run."""
        return max(1, round(self._seconds / ROUNDS / max(first, 1e-6)))

    def _warm_up(self, entry: Entry) -> None:
        """Run an entry once or more until a run is not faster than the one before it."""
        limit = None
        if self._first and entry.can_stop:
            limit = round(1e6 * max(self._seconds, _SLOWER * min(self._first.values())))
        try:
            taken = self._timed(entry, 1, limit)
            if taken < self._seconds / 4:  # the first run may have loaded code
                taken = self._timed(entry, max(1, min(20, round(0.01 / max(taken, 1e-6)))), limit)
        except _StoppedError:
            entry.failed = f"the first run took more than {limit or 0:,} us"
        except DovetailError as error:
            self._check()
            entry.failed = f"the first run failed: {reason_of(error)}"
        else:
            self._first[entry.name] = taken

    def _burst(self, entry: Entry, count: int) -> None:
        try:
            entry.times.append(self._timed(entry, count, None))
        except DovetailError as error:
            self._check()
            entry.failed = f"a run failed: {reason_of(error)}"

    def _timed(self, entry: Entry, count: int, limit_us: int | None) -> float:
        """Return the mean seconds of some runs."""
        self._check()
        control = RunControl(timeout_us=limit_us)
        run = entry.prepared.run
        try:
            with translate_errors(entry.name, "the trial failed", "GRAPH_ERROR_GENERAL"):
                start = self._clock()
                for _ in range(count):
                    run(self._inputs, self._outputs, control)
                taken = (self._clock() - start) / count
        except BackendError as error:
            if limit_us is not None and error.code == "GRAPH_ERROR_TIMED_OUT":
                raise _StoppedError from error
            raise
        return taken

    def _drop_slow(self) -> None:
        """Leave clearly slower entries out of later bursts: they keep their times."""
        best = min((min(e.times) for e in self._entries if e.times), default=0.0)
        for entry in self._running():
            if entry.times and min(entry.times) > _FAR * best and len(entry.times) > 2:
                self._first[entry.name] = float("inf")


class _StoppedError(Exception):
    """A first run took too long."""


def trial_buffers(interface: Interface) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return inputs of a trial and buffers for its outputs.

    Inputs are random real values between 0 and 1, in the form of their types, and zeros for
    integers, which may be indices. A tensor that is both has one buffer.
    """
    random = np.random.default_rng(0)
    inputs = {name: _input(end, random) for name, end in interface.inputs.items()}
    outputs = {
        name: inputs[name] if name in inputs else _zeros(end)
        for name, end in interface.outputs.items()
    }
    return inputs, outputs


def _input(end: Endpoint, random: np.random.Generator) -> Array:
    buffer, dtype = _zeros(end), end.tensor.dtype
    if dtype.is_float or (dtype.is_fixed_point and end.tensor.encoding is not None):
        real = random.random(end.shape, np.float32)
        buffer[...] = from_real(real, end.tensor.spec)
    return buffer


def _zeros(end: Endpoint) -> Array:
    made = aligned_empty(end.tensor.dtype.storage.itemsize * _count(end))
    made[...] = 0
    return made.view(end.storage).reshape(end.shape)


def _count(end: Endpoint) -> int:
    return int(np.prod(end.shape, dtype=np.int64))
