"""The choice of `auto` for one network next to the times of its candidates; a task of a process."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import onnx

import dovetail as dt
from benchmarks import rivals
from benchmarks.small_networks import SMALL
from dovetail.runtime.choice.trial import paired_medians
from dovetail.runtime.choice.trial_inputs import trial_buffers

AUTO = "auto"


def measure(
    *, network: str, model: str, candidates: str, rounds: int, burst_s: float, trial_seconds: float
) -> dict[str, Any]:
    """Return the choice, its duration and the median ms of `auto` and of each candidate.

    Args:
        network: Name of a small network, if there is no file.
        model: A `.dvt` file; empty for a small network.
        candidates: Names of backends, separated by commas; empty for the default of `auto`, which
            includes the rivals.
        rounds: Number of bursts of each, which alternate.
        burst_s: Duration of a burst.
        trial_seconds: Option of `auto`.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        rivals.install(Path(folder))
        loaded = dt.load(model) if model else _small(network, Path(folder))
        options = {"cache": False, "trial_seconds": trial_seconds}
        backend = f"{AUTO}:{candidates}" if candidates else AUTO
        start = time.perf_counter()
        chooser = dt.Session(loaded, backend, options=options)
        opened.enter_context(chooser)
        decided_s = time.perf_counter() - start
        (graph,) = chooser.graphs.values()
        assert graph.placement is not None
        choice = graph.placement.choice
        assert choice is not None
        tried = [each.backend for each in choice.candidates if not each.excluded]
        runs = {AUTO: _runner(chooser)}
        for name in tried:
            runs[name] = _runner(opened.enter_context(dt.Session(loaded, name)))
        return {
            "chosen": choice.backend,
            "decided_s": decided_s,
            "ms": _alternating(runs, rounds, burst_s),
            "trial_ms": {c.backend: c.ms for c in choice.candidates if c.ms is not None},
            "excluded": {c.backend: c.excluded for c in choice.candidates if c.excluded},
        }


def _small(name: str, folder: Path) -> dt.Model:
    path = folder / "net.onnx"
    onnx.save(SMALL[name](), path)
    return dt.convert(path)


def _runner(session: dt.Session) -> Callable[[], object]:
    (graph,) = session.graphs.values()
    inputs, outputs = trial_buffers(graph.interface)
    return lambda: graph.execute(inputs, outputs)


def _alternating(
    runs: Mapping[str, Callable[[], object]], rounds: int, burst_s: float
) -> dict[str, float]:
    """Return the typical ms of a run of each, from bursts in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for i in range(rounds):
        random.Random(i).shuffle(names)  # so that none always follows the same one
        for name in names:
            runs[name]()  # others have used the caches meanwhile
            times[name].append(1e3 * _seconds(runs[name], burst_s))
    return paired_medians(times)


def _seconds(run: Callable[[], object], burst_s: float) -> float:
    """Return the mean seconds of the runs in a burst, which has one at least."""
    count, spent, start = 0, 0.0, time.perf_counter()
    while not count or spent < burst_s:
        run()
        count, spent = count + 1, time.perf_counter() - start
    return spent / count
