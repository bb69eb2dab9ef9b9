"""The times of a run: one number for each inference, and tallies of bounded size."""

from __future__ import annotations

import statistics
import time
from array import array
from dataclasses import dataclass, field
from typing import Any

from dovetail.runtime import EventType, Profile, ProfileEvent
from dovetail_tools._run_log import RunLog


@dataclass(slots=True)
class Tally:
    """Count, sum and range of one quantity."""

    count: int = 0
    total: float = 0.0
    minimum: float = float("inf")
    maximum: float = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self.total += value
        self.minimum = min(self.minimum, value)
        self.maximum = max(self.maximum, value)

    def data(self) -> dict[str, float]:
        """Return the tally as plain data, in microseconds; only the count if it is 0."""
        if not self.count:
            return {"count": 0}
        return {
            "count": self.count,
            "mean_us": self.total / self.count,
            "min_us": self.minimum,
            "max_us": self.maximum,
        }


@dataclass(slots=True)
class Timings:
    """Times of one graph.

    Attributes:
        log: Receives each time.
        prepare_us: Time to compose and finalize the graph.
        finalize_us: Time of finalizing as reported by the backend.
        wall_s: Time from the first input read to the last result written.
        execute_us: Time of each inference, without waiting.
        profiled_us: Time of each execution that is profiled.
        read, write, wait: Times of reading inputs, writing results and waiting in the queue.
        nodes: Times of the steps of each execution, by the names of their nodes.
        counters: Counters of the same by name, by the names of their nodes.
    """

    log: RunLog
    prepare_us: float = 0.0
    finalize_us: float = 0.0
    wall_s: float = 0.0
    execute_us: array[float] = field(default_factory=lambda: array("d"))
    profiled_us: array[float] = field(default_factory=lambda: array("d"))
    read: Tally = field(default_factory=Tally)
    write: Tally = field(default_factory=Tally)
    wait: Tally = field(default_factory=Tally)
    nodes: dict[str, Tally] = field(default_factory=dict)
    counters: dict[str, dict[str, Tally]] = field(default_factory=dict)

    def take_inference(self, profile: Profile, timer: Profile | None) -> None:
        """Add the time of an inference and the events of its profile; clear both profiles.

        Args:
            profile: Profile of its executions.
            timer: Profile of those that are only timed, if there may be any.
        """
        profiles = (profile,) if timer is None else (profile, timer)
        self.execute_us.append(
            sum(e.value for each in profiles for e in each.events if e.type == EventType.EXECUTE)
        )
        self.take(profile)
        if timer is not None:
            timer.clear()

    def take(self, profile: Profile) -> None:
        """Add the events of a profile, and clear it."""
        for event in profile.events:
            self.log.call(event)
            if event.type == EventType.FINALIZE:
                self.finalize_us += event.value
            elif event.type == EventType.EXECUTE:
                self.profiled_us.append(event.value)
            self._take_parts(event)
        profile.clear()

    def _take_parts(self, event: ProfileEvent) -> None:
        """Add the parts of one execution; steps of the same nodes count together."""
        times: dict[str, float] = {}
        counts: dict[str, dict[str, float]] = {}
        for part in event.children:
            name = part.identifier
            if part.type == EventType.EXECUTE_QUEUE_WAIT:
                self.wait.add(part.value)
            elif part.type == EventType.NODE:
                times[name] = times.get(name, 0) + part.value
                own = counts.setdefault(name, {})
                for counter in part.counters:
                    own[counter.name] = own.get(counter.name, 0) + counter.value
        for name, took in times.items():
            self.nodes.setdefault(name, Tally()).add(took)
            tallies = self.counters.setdefault(name, {})
            for kind, value in counts[name].items():
                tallies.setdefault(kind, Tally()).add(value)

    def prepared(self, graph: str, start_s: float, took_s: float | None = None) -> None:
        """Add the time from a start, in seconds, until a graph was prepared, by default now."""
        took_s = time.perf_counter() - start_s if took_s is None else took_s
        self.prepare_us = took_s * 1e6
        self.log.prepared(graph, start_s, self.prepare_us)

    @property
    def inferences_per_s(self) -> float:
        """Inferences per second, including reads and writes."""
        return len(self.execute_us) / self.wall_s if self.wall_s else 0.0

    def inference_ms(self) -> dict[str, float]:
        """Return the mean, median, minimum and maximum time of an inference, in milliseconds."""
        return {
            "mean": statistics.fmean(self.execute_us) / 1e3,
            "median": statistics.median(self.execute_us) / 1e3,
            "min": min(self.execute_us) / 1e3,
            "max": max(self.execute_us) / 1e3,
        }

    def client_data(self) -> dict[str, Any]:
        """Return the times that the command measured, as plain data."""
        return {
            "inferences": len(self.execute_us),
            "wall_us": self.wall_s * 1e6,
            "prepare_us": self.prepare_us,
            "read": self.read.data(),
            "write": self.write.data(),
        }

    def backend_data(self) -> dict[str, Any]:
        """Return the times that the runtime measured, as plain data."""
        execute = Tally()
        for value in self.profiled_us:
            execute.add(value)
        median = {"median_us": statistics.median(self.profiled_us)} if self.profiled_us else {}
        return {
            "finalize_us": self.finalize_us,
            "execute": execute.data() | median,
            "queue_wait": self.wait.data(),
        }

    def node_data(self) -> list[dict[str, Any]]:
        """Return the steps in order of execution, as plain data: times, and means of counters."""
        return [
            {"nodes": name, **tally.data(), "counters": self._counter_means(name)}
            for name, tally in self.nodes.items()
        ]

    def _counter_means(self, nodes: str) -> dict[str, float]:
        return {name: c.total / c.count for name, c in self.counters[nodes].items()}
