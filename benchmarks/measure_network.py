"""The measurement of one engine on one network."""

from __future__ import annotations

import hashlib
import importlib
import time

import numpy as np

from benchmarks.engines import ENGINES, PRECISIONS, write_arrays
from benchmarks.gauges import Effort, peak_memory_mb, quartiles, times_ms


def measure(
    *,
    engine: str,
    model: str,
    inputs: str,
    outputs: str,
    threads: int,
    effort: tuple[float, int, float],
) -> dict[str, float | str]:
    """Load, run and measure; write the outputs to a file."""
    engine_type = ENGINES[engine]
    given = dict(np.load(inputs))
    baseline = peak_memory_mb()
    start = time.perf_counter()
    importlib.import_module(engine_type.package)
    imported = time.perf_counter()
    made = engine_type(model, threads)
    built = time.perf_counter()
    found = made.run(given)
    low, median, high = quartiles(times_ms(lambda: made.run(given), Effort(*effort)))
    peak = peak_memory_mb()  # before other calls of the engine
    if made.precision != PRECISIONS[engine]:
        raise SystemExit(f"{engine} computes in {made.precision}, expected {PRECISIONS[engine]}")
    write_arrays(outputs, found)
    digest = hashlib.sha256()
    for _, array in sorted(found.items()):
        digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "median_ms": median,
        "lower_quartile_ms": low,
        "upper_quartile_ms": high,
        "import_ms": (imported - start) * 1e3,
        "build_ms": (built - imported) * 1e3,
        "peak_mb": peak,
        "baseline_mb": baseline,
        "version": made.version,
        "precision": made.precision,
        "checksum": digest.hexdigest()[:16],
    }
