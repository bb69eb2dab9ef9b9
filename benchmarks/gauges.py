"""Measurements of time and memory."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Effort:
    """Duration of a measurement: until both lower limits are reached, or the upper limit.

    Attributes:
        seconds: Lower limit of the time.
        runs: Lower limit of the number of runs.
        cap_s: Upper limit of the time.
    """

    seconds: float = 0.5
    runs: int = 10
    cap_s: float = 3.0

    def reached(self, runs: int, seconds: float) -> bool:
        """Return whether the limits are reached."""
        return seconds >= self.cap_s or (runs >= self.runs and seconds >= self.seconds)


QUICK = Effort(seconds=0.02, runs=3, cap_s=0.5)


def times_ms(run: Callable[[], object], effort: Effort) -> list[float]:
    """Return the time of each run; a third of the effort is a warm-up before."""
    _repeat(run, Effort(effort.seconds / 3, max(effort.runs // 3, 1), effort.cap_s / 3))
    return _repeat(run, effort)


def _repeat(run: Callable[[], object], effort: Effort) -> list[float]:
    taken: list[float] = []
    begin = time.perf_counter()
    while not effort.reached(len(taken), time.perf_counter() - begin):
        start = time.perf_counter()
        run()
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def peak_memory_mb() -> float:
    """Return the largest resident size of this process so far.

    On Linux it is read from /proc: the value of `resource` may be the parent's size, from before
    this process loaded its program.
    """
    if STATUS.exists():
        for line in STATUS.read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
