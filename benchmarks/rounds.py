"""The rounds: every engine on every network, taking turns, and what each gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from benchmarks.cache import Files
from benchmarks.gauges import Effort
from benchmarks.process import ask

# Float32 sums of a few thousand products, in another order, through up to 120 layers; relative to
# the output's largest magnitude. As in the tests of networks.
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Sample:
    """One engine on one network in one round; times in ms, memory in MB.

    Attributes:
        median_ms: Of the runs.
        lower_quartile_ms: Of the runs.
        upper_quartile_ms: Of the runs.
        import_ms: Importing the engine.
        build_ms: From the model file to a session that can run.
        peak_mb: The largest resident size after the runs.
        baseline_mb: That with NumPy and the inputs alone, before the engine.
        version: The engine's.
        precision: The type that it computed in.
        checksum: Of the outputs' bytes.
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
        """Whether the outputs are the reference's; what computes in less than float32 is not."""
        return self.precision != "float32" or self.difference <= TOLERANCE


# By network, then engine: one sample a round.
Samples = dict[str, dict[str, list[Sample]]]


def measure(
    files: Mapping[str, Files],
    engines: Sequence[str],
    *,
    rounds: int,
    threads: int,
    effort: Effort,
    scratch: Path,
    tell: Callable[[str], None],
) -> Samples:
    """Run all rounds.

    Args:
        files: The networks by name.
        engines: Names of the engines.
        rounds: How often each is measured, with all others in between.
        threads: How many threads each may use.
        effort: How long each is measured.
        scratch: An empty folder.
        tell: Is told of the progress.

    Raises:
        ProcessFailedError: A process failed, or computed in another type than it should.
    """
    samples: Samples = {name: {engine: [] for engine in engines} for name in files}
    for turn in range(rounds):
        for name, model in files.items():
            for engine in engines:
                sample = _once(model, engine, threads, effort, scratch / "outputs.npz")
                samples[name][engine].append(sample)
                tell(f"round {turn + 1}/{rounds}  {name:14} {engine:14} {sample.median_ms:9.3f} ms")
    return samples


def _once(model: Files, engine: str, threads: int, effort: Effort, outputs: Path) -> Sample:
    found = ask(
        "measure_network",
        {
            "engine": engine,
            "model": str(model.dvt if engine.startswith("dovetail") else model.onnx),
            "inputs": str(model.inputs),
            "outputs": str(outputs),
            "threads": threads,
            "effort": astuple(effort),
        },
        threads=threads,
    )
    return Sample(**found, difference=difference(outputs, model.reference))


def difference(outputs: Path, reference: Path) -> float:
    """Return the largest relative difference over all outputs; infinite where they do not fit."""
    with np.load(outputs) as ours, np.load(reference) as theirs:
        if set(ours.files) != set(theirs.files):
            return float("inf")
        return max(_apart(ours[name], theirs[name]) for name in theirs.files)


def _apart(found: np.ndarray, wanted: np.ndarray) -> float:
    if found.shape != wanted.shape or not np.isfinite(found).all():
        return float("inf")
    largest = float(np.abs(wanted).max())
    return float(np.abs(found - wanted).max()) / largest if largest else float("inf")
