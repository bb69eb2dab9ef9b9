"""Measurements of our framework; each runs in a process of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from benchmarks.busy import busy_processes
from benchmarks.engines import our_config
from benchmarks.gauges import Effort, times_ms
from dovetail import Model, Session, runtime

Found = dict[str, float]


@dataclass(frozen=True, slots=True)
class Subject:
    """The model that is measured.

    Attributes:
        model: Path of the `.dvt`.
        inputs: Arrays by name.
        threads: Number of threads of a session.
    """

    model: str
    inputs: Mapping[str, Any]
    threads: int

    def session(self) -> Session:
        """Create a session of the model."""
        return Session(self.model, config=our_config(self.threads))


def run(subject: Subject, effort: Effort) -> Found:
    """Return the time of a run as users call it, and of a run into existing outputs."""
    with subject.session() as session:
        (graph,) = session.graphs.values()
        outputs = graph.execute(subject.inputs)
        return {
            "run_ms": median(times_ms(lambda: session.run(subject.inputs), effort)),
            "bound_ms": median(times_ms(lambda: graph.execute(subject.inputs, outputs), effort)),
            "nodes": len(graph.ir.nodes),
        }


def steps(subject: Subject, effort: Effort) -> Found:
    """Return the time of a run, and the sum of the times of its steps.

    Runs as a whole and runs with timed steps alternate. A step's time is the median of its runs.
    """
    with subject.session() as session:
        (graph,) = session.graphs.values()
        outputs = graph.execute(subject.inputs)
        whole: list[float] = []
        timed: list[list[float]] = []

        def both() -> None:
            profile = session.backend.create_profile(runtime.ProfileLevel.DETAILED)
            start = time.perf_counter()
            graph.execute(subject.inputs, outputs)
            whole.append((time.perf_counter() - start) * 1e3)
            graph.execute(subject.inputs, outputs, profile=profile)
            (event,) = profile.events
            timed.append([child.value / 1e3 for child in event.children])
            profile.free()

        times_ms(both, effort)
        sums = [median(step) for step in zip(*timed, strict=True)]
        return {"run_ms": median(whole), "steps_ms": sum(sums), "steps": len(sums)}


def finalize(subject: Subject, effort: Effort) -> Found:
    """Return the time of the first finalize of the process."""
    loaded = Model.load(subject.model)
    with runtime.Backend.create("cpu", our_config(subject.threads)["backend"]["cpu"]) as backend:
        (graph,) = backend.create_context().compose(loaded)
        start = time.perf_counter()
        graph.finalize()
        return {"finalize_ms": (time.perf_counter() - start) * 1e3}


def two_sessions(subject: Subject, effort: Effort) -> Found:
    """Return the runs per second of one session, and of two sessions in two threads together."""
    with ThreadPoolExecutor(2) as pool:
        alone = pool.submit(_throughput, subject, effort, threading.Barrier(1)).result()
        barrier = threading.Barrier(2)
        both = [pool.submit(_throughput, subject, effort, barrier) for _ in range(2)]
        return {"one_per_s": alone, "two_per_s": sum(future.result() for future in both)}


def _throughput(subject: Subject, effort: Effort, barrier: threading.Barrier) -> float:
    """Run a new session until the effort is reached; threads at the same barrier start together."""
    with subject.session() as session:
        session.run(subject.inputs)
        barrier.wait()
        start = time.perf_counter()
        runs, taken = 0, 0.0
        while not effort.reached(runs, taken):
            session.run(subject.inputs)
            runs, taken = runs + 1, time.perf_counter() - start
        barrier.wait()  # the other session still runs, and must not be disturbed
        return runs / taken


def busy_thread(subject: Subject, effort: Effort) -> Found:
    """Return the time of a run alone, and with a busy thread of pure Python."""
    over = threading.Event()

    def spin() -> None:
        count = 0
        while not over.is_set():
            count += 1

    with subject.session() as session:
        alone = median(times_ms(lambda: session.run(subject.inputs), effort))
        thread = threading.Thread(target=spin)
        thread.start()
        try:
            beside = median(times_ms(lambda: session.run(subject.inputs), effort))
        finally:
            over.set()
            thread.join()
    return {"alone_ms": alone, "beside_ms": beside}


def two_busy_processes(subject: Subject, effort: Effort) -> Found:
    """Return the time of a run alone, and with two busy processes."""
    with subject.session() as session:
        alone = median(times_ms(lambda: session.run(subject.inputs), effort))
        with busy_processes(2):
            beside = median(times_ms(lambda: session.run(subject.inputs), effort))
    return {"alone_ms": alone, "beside_ms": beside}


TASKS: Mapping[str, Callable[[Subject, Effort], Found]] = {
    each.__name__: each
    for each in (run, steps, finalize, two_sessions, busy_thread, two_busy_processes)
}


def measure(
    *, task: str, model: str, inputs: str, threads: int, effort: tuple[float, int, float]
) -> Found:
    """Take one measurement."""
    return TASKS[task](Subject(model, dict(np.load(inputs)), threads), Effort(*effort))
