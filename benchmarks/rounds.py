"""The rounds: every engine on every network, in turns, and the sample of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from benchmarks.busy import busy_processes
from benchmarks.engines import ENGINES
from benchmarks.gauges import Effort
from benchmarks.model_files import Files
from benchmarks.process import ProcessFailedError, ask

# Float32 sums of a few thousand products, in another order, through up to 120 layers; relative to
# the output's largest magnitude. The tests of networks have the same tolerance.
TOLERANCE = 1e-4
OUR_PACKAGE = "dovetail"


@dataclass(frozen=True, slots=True)
class Sample:
    """One engine on one network in one round; times in ms, memory in MB.

    Attributes:
        median_ms: Median time of the runs.
        lower_quartile_ms: Lower quartile of the runs' times.
        upper_quartile_ms: Upper quartile of the runs' times.
        import_ms: Time to import the engine.
        build_ms: Time from the model file to a session that can run.
        peak_mb: The largest resident size after the runs.
        baseline_mb: The resident size with NumPy and the inputs, before the engine is imported.
        version: The engine's version.
        precision: The type in which it computed.
        checksum: Checksum of the outputs' bytes.
        difference: Largest difference from the reference, relative to its largest magnitude.
    """

    median_ms: float
    lower_quartile_ms: float
    upper_quartile_ms: float
    import_ms: float
    build_ms: float
    peak_mb: float
    baseline_mb: float
    version: str
    precision: str
    checksum: str
    difference: float

    @property
    def added_mb(self) -> float:
        """Peak memory above the baseline."""
        return self.peak_mb - self.baseline_mb

    @property
    def is_right(self) -> bool:
        """True if the outputs match the reference; only those of float32 must."""
        return self.precision != "float32" or self.difference <= TOLERANCE


# By network, then engine: one sample a round; none if a peer failed.
Samples = dict[str, dict[str, list[Sample]]]
# By peer, then network: why it failed.
Failures = dict[str, dict[str, str]]
# By number of busy processes.
Loads = dict[int, Samples]


def measure(
    files: Mapping[str, Files],
    engines: Sequence[str],
    *,
    loads: Sequence[int],
    rounds: int,
    threads: int,
    effort: Effort,
    scratch: Path,
    tell: Callable[[str], None],
    failures: Failures,
) -> Loads:
    """Run all rounds.

    A peer that fails on a network is left out there, and the others go on.

    Args:
        files: The networks by name.
        engines: Names of the engines.
        loads: Numbers of busy processes during the measurements.
        rounds: Number of samples of each, with all others in between.
        threads: Number of threads that each may use.
        effort: Duration of each measurement.
        scratch: An empty folder.
        tell: Prints a line on the progress.
        failures: Receives the failures of peers.

    Raises:
        ProcessFailedError: A process of ours failed, or computed in an unexpected type.
    """
    found: Loads = {load: {n: {e: [] for e in engines} for n in files} for load in loads}
    for turn in range(rounds):
        for name, model in files.items():
            for load in loads:
                with busy_processes(load):
                    for engine in engines:
                        if name in failures.get(engine, {}):
                            continue
                        label = f"round {turn + 1}/{rounds}  {name:14} busy {load}  {engine:14}"
                        try:
                            sample = _once(model, engine, threads, effort, scratch / "outputs.npz")
                        except ProcessFailedError as error:
                            failures.setdefault(engine, {})[name] = _excused(engine, error)
                            tell(f"{label} failed: {error.reason}")
                        else:
                            found[load][name][engine].append(sample)
                            tell(f"{label} {sample.median_ms:9.3f} ms")
    _forget(failures, found.values())
    return found


def _excused(engine: str, error: ProcessFailedError) -> str:
    """Return why a peer failed; raise the error if the engine is ours."""
    if ENGINES[engine].package == OUR_PACKAGE:
        raise error
    return error.reason


def _forget(failures: Failures, loads: Iterable[Samples]) -> None:
    """Drop the samples of rounds before a failure."""
    for samples in loads:
        for name, engines in samples.items():
            for engine, taken in engines.items():
                if name in failures.get(engine, {}):
                    taken.clear()


def _once(model: Files, engine: str, threads: int, effort: Effort, outputs: Path) -> Sample:
    found = ask(
        "measure_network:measure",
        {
            "engine": engine,
            "model": str(getattr(model, ENGINES[engine].model)),
            "inputs": str(model.inputs),
            "outputs": str(outputs),
            "threads": threads,
            "effort": astuple(effort),
        },
        threads=threads,
    )
    return Sample(**found, difference=difference(outputs, model.reference))


def difference(outputs: Path, reference: Path) -> float:
    """Return the largest relative difference of all outputs; infinite if names or shapes differ."""
    with np.load(outputs) as ours, np.load(reference) as theirs:
        if set(ours.files) != set(theirs.files):
            return float("inf")
        return max(_apart(ours[name], theirs[name]) for name in theirs.files)


def _apart(found: np.ndarray, wanted: np.ndarray) -> float:
    if found.shape != wanted.shape or not np.isfinite(found).all():
        return float("inf")
    largest = float(np.abs(wanted).max())
    return float(np.abs(found - wanted).max()) / largest if largest else float("inf")
