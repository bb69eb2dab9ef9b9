"""Cost of adaround and of float runs: `python -m benchmarks.quantization.adaround [MODEL ...]`.

For each model: the number of weights, the time of one float run, and the time that adaround adds to
quantizing with the same samples, also as a multiple of the float run. One thread, random inputs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import dovetail as dt
from benchmarks.tables import table

NETWORKS = ("examples/digits/digits.onnx", "examples/trained/depthwise.onnx")
SAMPLES = 8
OPTIONS: dict[str, Any] = {"weights_bitwidth": 4, "bias_bitwidth": 32, "skip_algorithm_check": True}


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the median time of some calls."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def measure(path: str) -> tuple[str, ...]:
    """Return a row of the table."""
    model = dt.convert(path)
    (graph,) = model.graphs.values()
    rng = np.random.default_rng(0)
    samples = [
        {t.name: rng.uniform(0, 1, t.shape).astype(t.dtype.storage) for t in graph.inputs}
        for _ in range(SAMPLES)
    ]
    with dt.Session(model, config={"backend": {"cpu": {"num_threads": 1}}}) as session:
        run = seconds(lambda: session.run(samples[0]), 50)
    plain = seconds(lambda: dt.quantize(model, samples, **OPTIONS), 3)
    learned = seconds(lambda: dt.quantize(model, samples, algorithms=["adaround"], **OPTIONS), 3)
    weights = sum(
        int(np.prod(t.shape)) for t in graph.tensors.values() if t.kind.is_static and t.shape
    )
    added = learned - plain
    name = Path(path).stem
    return name, str(weights), f"{run * 1e3:.3f}", f"{added:.2f}", f"{added / run:.0f}"


if __name__ == "__main__":
    rows = [measure(path) for path in sys.argv[1:] or NETWORKS]
    print(table(("network", "weights", "float run, ms", "adaround, s", "float runs"), rows))
