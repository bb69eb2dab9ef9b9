"""Trial: prepared plans run in alternating bursts on generated inputs, and are timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.errors import DovetailError
from dovetail.runtime.choice.candidates import reason_of
from dovetail.runtime.choice.trial_inputs import trial_buffers
from dovetail.runtime.contract import RunControl
from dovetail.runtime.placement.prepared import HeteroPrepared
from dovetail.runtime.plugin_errors import translate_errors

_FIRST_S = 1.0  # the first run may load code or compile kernels
_SLOWER = 4.0  # a run may take as many times as long as the fastest one
_BURST_S = 0.01  # duration of a burst, which has one run at least
_LONG_S = 0.01  # from this duration on, a run checks whether the trial must end
_SURE = 3  # bursts that are enough to see that a plan is beaten, if it is slower by more than
_FAR = 1.5
_SLOW_S = 1.0  # for runs of this duration, one burst must do


@dataclass(slots=True)
class Entry:
    """A prepared plan in a trial.

    Attributes:
        name: Its name.
        prepared: The prepared graph.
        can_stop: Whether its runs end when a control says so.
        failed: Why it was not measured; empty if it was.
        is_stopped: Whether that is since it is much slower than another.
        run_s: Seconds of the second run; 0 before it.
        control: Control of the runs in bursts.
        times: Seconds of an inference in each burst.
        spent: Seconds of all bursts.
    """

    name: str
    prepared: HeteroPrepared
    can_stop: bool
    failed: str = ""
    is_stopped: bool = False
    run_s: float = 0.0
    control: RunControl = field(default_factory=RunControl)
    times: list[float] = field(default_factory=list)
    spent: float = 0.0

    def stop(self, reason: str) -> None:
        """Leave it out of the trial, since it is much slower than another."""
        self.failed, self.is_stopped = reason, True


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


def measure(
    entries: Sequence[Entry], seconds: float, check: Callable[[], None]
) -> Mapping[str, float]:
    """Return the seconds of an inference of plans of one graph, from bursts in turns.

    Each runs for about `seconds` after two runs that are not counted. One that is much slower than
    the fastest is stopped, if its backends can stop.

    Args:
        entries: The plans; those that have no time have the reason afterwards.
        seconds: Duration for each.
        check: Called between runs, and in long ones; an error of it ends the trial.
    """
    trial = _Trial(entries, seconds, check)
    trial.run()
    return paired_medians({e.name: e.times for e in entries if e.times and not e.failed})


def paired_medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return a typical time of each of several plans that were measured in the same rounds.

    The median of the ratios to the fastest one in the same round cancels changes of the machine's
    load from round to round, which medians of times do not.

    Args:
        times: Times by round; those of slow plans may be fewer, from the first rounds.
    """
    if not times:
        return {}
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    longest = max(map(len, times.values()))
    full = [name for name, taken in times.items() if len(taken) == longest]
    base = min(full, key=lambda name: medians[name])
    ratios = {
        name: [own / ref for own, ref in zip(taken, times[base], strict=False)]
        for name, taken in times.items()
    }
    return {name: medians[base] * statistics.median(found) for name, found in ratios.items()}


class _Trial:
    def __init__(self, entries: Sequence[Entry], seconds: float, check: Callable[[], None]) -> None:
        self._entries = entries
        self._seconds = seconds
        self._check = check
        self._inputs, self._outputs = trial_buffers(entries[0].prepared.interface)

    def run(self) -> None:
        """Measure all entries."""
        self._first_runs()
        self._second_runs()
        running = [entry for entry in self._entries if entry.run_s]
        while running and any(map(self._needs_more, running)):
            for entry in running:
                self._burst(entry)
            running = self._unbeaten([entry for entry in running if not entry.failed])
            running.reverse()  # the one before it may still keep the processor busy

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
        """Run each once more, and note how long that takes."""
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
                entry.run_s = taken
                if taken > _LONG_S:
                    entry.control = _TrialControl(self._check)

    def _single_run(self, entry: Entry, limit: float, stopped: list[Entry]) -> float | None:
        """Return the seconds of a run; None if it failed, or was stopped and is added to a list."""
        limit_us = round(1e6 * limit) if entry.can_stop and limit < float("inf") else None
        try:
            taken, _ = self._timed(entry, 0.0, _TrialControl(self._check, limit_us))
        except DovetailError as error:
            self._check()
            if limit_us is not None and error.code == "GRAPH_ERROR_TIMED_OUT":
                stopped.append(entry)
            else:
                entry.failed = f"a run failed: {reason_of(error)}"
            return None
        return taken

    def _needs_more(self, entry: Entry) -> bool:
        """Return whether an entry has not run long or often enough."""
        if not entry.times or entry.spent < self._seconds:
            return True
        return len(entry.times) < _SURE and entry.times[-1] < _SLOW_S

    def _unbeaten(self, running: Sequence[Entry]) -> list[Entry]:
        """Return the entries that may be the fastest."""
        found = paired_medians({entry.name: entry.times for entry in running})
        best = min(found.values(), default=0.0)
        return [e for e in running if len(e.times) < _SURE or found[e.name] <= _FAR * best]

    def _burst(self, entry: Entry) -> None:
        try:
            if entry.run_s < _BURST_S:  # others have used the caches meanwhile
                self._timed(entry, 0.0, entry.control)
            taken, spent = self._timed(entry, min(_BURST_S, self._seconds / _SURE), entry.control)
        except DovetailError as error:
            self._check()
            entry.failed = f"a run failed: {reason_of(error)}"
        else:
            entry.times.append(taken)
            entry.spent += spent

    def _timed(self, entry: Entry, seconds: float, control: RunControl) -> tuple[float, float]:
        """Run for some seconds, and once at least; return the mean seconds of a run, and of all.

        Raises:
            BackendError: A run failed, or a control ended it or the trial.
        """
        self._check()
        run, inputs, outputs = entry.prepared.run, self._inputs, self._outputs
        with translate_errors(entry.name, "the trial failed", "GRAPH_ERROR_GENERAL"):
            count, spent, start = 0, 0.0, time.perf_counter()
            while not count or spent < seconds:
                run(inputs, outputs, control)
                count, spent = count + 1, time.perf_counter() - start
            return spent / count, spent
