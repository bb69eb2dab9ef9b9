"""What a run measured: bounded in size, however long it is."""

from __future__ import annotations

import statistics
from array import array
from dataclasses import dataclass, field
from typing import Any

from dovetail.runtime import EventType, Profile


@dataclass(slots=True)
class Tally:
    """Count, sum and range of one quantity."""

    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    greatest: float = 0.0

    def add(self, value: float) -> None:
        """Take one value more."""
        self.count += 1
        self.total += value
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)

    def data(self) -> dict[str, float]:
        """Return it as plain data, microseconds; nothing but the count where that is 0."""
        if not self.count:
            return {"count": 0}
        return {
            "count": self.count,
            "mean_us": self.total / self.count,
            "min_us": self.least,
            "max_us": self.greatest,
        }


@dataclass(slots=True)
class Timings:
    """Times of one graph.

    Attributes:
        prepare_us: Composing and finalizing it.
        finalize_us: What the backend says finalizing took.
        wall_s: From the first input read to the last result written.
        execute_us: Of each inference, without waiting.
        read, write, wait: Reading inputs, writing results, waiting in the queue.
        nodes: Of each step, by its nodes.
    """

    prepare_us: float = 0.0
    finalize_us: float = 0.0
    wall_s: float = 0.0
    execute_us: array[float] = field(default_factory=lambda: array("d"))
    read: Tally = field(default_factory=Tally)
    write: Tally = field(default_factory=Tally)
    wait: Tally = field(default_factory=Tally)
    nodes: dict[str, Tally] = field(default_factory=dict)

    def take(self, profile: Profile) -> None:
        """Take the events of a profile, and empties it."""
        for event in profile.events:
            if event.type is EventType.FINALIZE:
                self.finalize_us += event.value
            elif event.type is EventType.EXECUTE:
                self.execute_us.append(event.value)
            for part in event.children:
                if part.type is EventType.EXECUTE_QUEUE_WAIT:
                    self.wait.add(part.value)
                elif part.type is EventType.NODE:
                    self.nodes.setdefault(part.identifier, Tally()).add(part.value)
        profile.clear()

    @property
    def inferences_per_s(self) -> float:
        """Inferences a second, reading and writing included."""
        return len(self.execute_us) / self.wall_s if self.wall_s else 0.0

    def inference_ms(self) -> dict[str, float]:
        """Return mean, median, least and greatest milliseconds of an inference."""
        return {
            "mean": statistics.fmean(self.execute_us) / 1e3,
            "median": statistics.median(self.execute_us) / 1e3,
            "min": min(self.execute_us) / 1e3,
            "max": max(self.execute_us) / 1e3,
        }

    def client_data(self) -> dict[str, Any]:
        """Return what this tool measured itself, as plain data."""
        return {
            "inferences": len(self.execute_us),
            "wall_us": self.wall_s * 1e6,
            "prepare_us": self.prepare_us,
            "read": self.read.data(),
            "write": self.write.data(),
        }

    def backend_data(self) -> dict[str, Any]:
        """Return what the runtime measured, as plain data."""
        execute = Tally()
        for value in self.execute_us:
            execute.add(value)
        median = {"median_us": statistics.median(self.execute_us)} if self.execute_us else {}
        return {
            "finalize_us": self.finalize_us,
            "execute": execute.data() | median,
            "queue_wait": self.wait.data(),
        }

    def node_data(self) -> list[dict[str, Any]]:
        """Return the times of the steps, in order of execution, as plain data."""
        return [{"nodes": name, **tally.data()} for name, tally in self.nodes.items()]
