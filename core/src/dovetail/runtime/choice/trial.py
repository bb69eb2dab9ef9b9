"""Trial: prepared plans run in alternating bursts on generated inputs, and are timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dovetail.errors import DovetailError
from dovetail.runtime.choice.candidates import reason_of
from dovetail.runtime.choice.trial_inputs import trial_buffers
from dovetail.runtime.contract import RunControl
from dovetail.runtime.placement.prepared import HeteroPrepared
from dovetail.runtime.plugin_errors import translate_errors

_ROUNDS = 9  # bursts of each
_BURST_S = 0.05  # maximum duration of a burst of several runs
_LONG_S = 0.01  # from this duration on, a run checks whether the trial must end
_FIRST_S = 1.0  # the first run may load code or compile kernels
_SLOWER = 4.0  # a run may take as many times as long as the fastest one
_FAR = 1.5  # a plan whose fastest burst is slower than the fastest by more is known to lose
_SURE = 3  # after so many bursts


@dataclass(slots=True)
class Entry:
    """A prepared plan in a trial.

    Attributes:
        name: Its name.
        prepared: The prepared graph.
        can_stop: Whether its runs end when a control says so.
        failed: Why it was not measured; empty if it was.
        is_stopped: Whether that is since it is much slower than another.
        runs: Number of runs in a burst.
        control: Control of these runs.
        times: Seconds of an inference in each burst.
        spent: Seconds of all bursts.
    """

    name: str
    prepared: HeteroPrepared
    can_stop: bool
    failed: str = ""
    is_stopped: bool = False
    runs: int = 0
    control: RunControl = field(default_factory=RunControl)
    times: list[float] = field(default_factory=list)
    spent: float = 0.0

    def stop(self, reason: str) -> None:
        """Leave it out of the trial, since it is much slower than another."""
        self.failed, self.is_stopped = reason, True

    @property
    def seconds(self) -> float | None:
        """Median seconds of an inference; None if it was not measured."""
        return statistics.median(self.times) if self.times else None


class _TrialControl(RunControl):
    """Control of a run that ends with the trial, or after some time.

    Args:
        check: Raises if the trial must end.
        timeout_us: Microseconds after which the run ends, or None.
    """

    __slots__ = ("_check_trial",)

    def __init__(self, check: Callable[[], None], timeout_us: int | None = None) -> None:
        super().__init__(timeout_us=timeout_us)
        self.limited = True
        self._check_trial = check

    def check(self) -> None:
        """Raise if the trial or the run must end; see `RunControl.check`."""
        self._check_trial()
        super().check()


def measure(entries: Sequence[Entry], seconds: float, check: Callable[[], None]) -> None:
    """Measure plans of one graph in alternating bursts.

    Each runs for about `seconds`, and once at least, after two runs that are not counted. One that
    is much slower than the fastest is stopped, if its backends can stop.

    Args:
        entries: The plans; times and failures are added to them.
        seconds: Duration for each.
        check: Called between runs, and in long ones; an error of it ends the trial.
    """
    _Trial(entries, seconds, check).run()


class _Trial:
    def __init__(self, entries: Sequence[Entry], seconds: float, check: Callable[[], None]) -> None:
        self._entries = entries
        self._seconds = seconds
        self._check = check
        self._inputs, self._outputs = trial_buffers(entries[0].prepared.interface)

    def run(self) -> None:
        self._first_runs()
        self._second_runs()
        while running := [entry for entry in self._entries if self._is_open(entry)]:
            for entry in running:
                self._burst(entry)

    def _first_runs(self) -> None:
        """Run each once; those that are stopped try again with more time until one is finished."""
        limit, best, waiting = _FIRST_S, float("inf"), list(self._entries)
        while waiting:
            stopped: list[Entry] = []
            for entry in waiting:
                taken = self._single_run(entry, limit, stopped)
                best = best if taken is None else min(best, taken)
            if limit >= _SLOWER * best:
                for entry in stopped:
                    entry.stop(f"the first run took more than {limit:.3g} s")
                return
            limit = _SLOWER * (limit if best == float("inf") else best)
            waiting = stopped

    def _second_runs(self) -> None:
        """Run each once more, and set the number of runs in its bursts."""
        best = float("inf")
        for entry in self._entries:
            if entry.failed:
                continue
            limit = max(self._seconds, _SLOWER * best)
            stopped: list[Entry] = []
            taken = self._single_run(entry, limit, stopped)
            if stopped:
                entry.stop(f"a run took more than {limit:.3g} s")
            elif taken is not None:
                best = min(best, taken)
                burst = min(_BURST_S, self._seconds / _ROUNDS)
                entry.runs = max(1, round(burst / max(taken, 1e-6)))
                if taken > _LONG_S:
                    entry.control = _TrialControl(self._check)

    def _single_run(self, entry: Entry, limit: float, stopped: list[Entry]) -> float | None:
        """Return the seconds of a run; None if it failed, or was stopped and is added to a list."""
        limit_us = round(1e6 * limit) if entry.can_stop and limit < float("inf") else None
        try:
            return self._timed(entry, 1, _TrialControl(self._check, limit_us))
        except DovetailError as error:
            self._check()
            if limit_us is not None and error.code == "GRAPH_ERROR_TIMED_OUT":
                stopped.append(entry)
            else:
                entry.failed = f"a run failed: {reason_of(error)}"
        return None

    def _is_open(self, entry: Entry) -> bool:
        """Return whether an entry needs another burst."""
        if entry.failed or not entry.runs:
            return False
        best = min((min(e.times) for e in self._entries if e.times), default=0.0)
        is_beaten = len(entry.times) >= _SURE and min(entry.times) > _FAR * best
        return not entry.times or (entry.spent < self._seconds and not is_beaten)

    def _burst(self, entry: Entry) -> None:
        try:
            taken = self._timed(entry, entry.runs, entry.control)
        except DovetailError as error:
            self._check()
            entry.failed = f"a run failed: {reason_of(error)}"
        else:
            entry.times.append(taken)
            entry.spent += taken * entry.runs

    def _timed(self, entry: Entry, count: int, control: RunControl) -> float:
        """Return the mean seconds of some runs.

        Raises:
            BackendError: A run failed, or a control ended it or the trial.
        """
        self._check()
        run, inputs, outputs = entry.prepared.run, self._inputs, self._outputs
        with translate_errors(entry.name, "the trial failed", "GRAPH_ERROR_GENERAL"):
            start = time.perf_counter()
            for _ in range(count):
                run(inputs, outputs, control)
            return (time.perf_counter() - start) / count
