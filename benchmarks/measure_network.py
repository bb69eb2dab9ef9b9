"""A process that measures one engine on one network."""

from __future__ import annotations

import hashlib
import importlib
import time
from pathlib import Path

import numpy as np

from benchmarks.engines import ENGINES, PRECISIONS
from benchmarks.gauges import Effort, peak_memory_mb, quartiles, times_ms
from benchmarks.process import answer, request


def main() -> None:
    """Load, run and measure; write the outputs to the requested file."""
    asked = request()
    engine_type = ENGINES[asked["engine"]]
    inputs = dict(np.load(asked["inputs"]))
    baseline = peak_memory_mb()
    start = time.perf_counter()
    importlib.import_module(engine_type.package)
    imported = time.perf_counter()
    engine = engine_type(asked["model"], asked["threads"])
    built = time.perf_counter()
    outputs = engine.run(inputs)
    low, median, high = quartiles(times_ms(lambda: engine.run(inputs), Effort(*asked["effort"])))
    peak = peak_memory_mb()  # before other calls of the engine
    if engine.precision != PRECISIONS[asked["engine"]]:
        raise SystemExit(
            f"{asked['engine']} computes in {engine.precision}, "
            f"expected {PRECISIONS[asked['engine']]}"
        )
    with Path(asked["outputs"]).open("wb") as file:
        np.savez(file, allow_pickle=False, **outputs)
    digest = hashlib.sha256()
    for _, array in sorted(outputs.items()):
        digest.update(np.ascontiguousarray(array).tobytes())
    answer(
        {
            "median_ms": median,
            "lower_quartile_ms": low,
            "upper_quartile_ms": high,
            "import_ms": (imported - start) * 1e3,
            "build_ms": (built - imported) * 1e3,
            "peak_mb": peak,
            "baseline_mb": baseline,
            "version": engine.version,
            "precision": engine.precision,
            "checksum": digest.hexdigest()[:16],
        }
    )


if __name__ == "__main__":
    main()
