"""Measure the verifiers next to their formulas in plain NumPy.

    python -m benchmarks.verifiers [--elements N] [--rounds N] [--json]

The two alternate, so that a busy machine slows both; the median times, their ratio and the peak
memory of both are printed. Tensors are float32, sums float64.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from dovetail.ir import Array
from dovetail.plugins.verifiers import verifier
from dovetail.verification import ConfiguredVerifier

CLASSES = 1000
K = 5


def _wide(values: Array) -> Array:
    return values.astype(np.float64)


def _error(golden: Array, target: Array) -> Array:
    return np.asarray(np.abs(_wide(target) - _wide(golden)))


def _top(values: Array) -> Array:
    return np.sort(np.argsort(-values, axis=1, kind="stable")[:, :K], axis=1)


def _cosine(golden: Array, target: Array) -> float:
    norms = [float(np.sqrt((_wide(a) ** 2).sum())) for a in (golden, target)]
    return float((_wide(golden) * _wide(target)).sum()) / (norms[0] * norms[1])


PLAIN: dict[str, Callable[[Array, Array], float]] = {
    "RtolAtol": lambda g, t: float(100 * (~np.isclose(_wide(t), _wide(g), 0.01, 0.01)).mean()),
    "AdjustedRtolAtol": lambda g, t: float(
        _error(g, t).max() / ((max(float(g.max()), 0) - min(float(g.min()), 0)) / 256)
    ),
    "L1Error": lambda g, t: float(_error(g, t).sum()),
    "MAE": lambda g, t: float(_error(g, t).mean()),
    "MSE": lambda g, t: float(((_wide(t) - _wide(g)) ** 2).mean()),
    "ScaledDiff": lambda g, t: float(_error(g, t).max() / np.abs(_wide(g)).max()),
    "SQNR": lambda g, t: float(
        10 * np.log10((_wide(g) ** 2).sum() / ((_wide(t) - _wide(g)) ** 2).sum())
    ),
    "CosineSimilarity": _cosine,
    "TopK": lambda g, t: float(100 * (_top(g) == _top(t)).all(axis=1).mean()),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one verifier.

    Attributes:
        ms: Median time.
        plain_ms: That of the formula.
        mb: Peak memory beyond the tensors.
        plain_mb: That of the formula.
        value: The result.
        plain_value: That of the formula.
    """

    ms: float
    plain_ms: float
    mb: float
    plain_mb: float
    value: float
    plain_value: float


def measure(elements: int, rounds: int) -> dict[str, Measured]:
    """Return the figures of all verifiers on two tensors."""
    rng = np.random.default_rng(0)
    golden = rng.standard_normal((elements // CLASSES, CLASSES), np.float32)
    target = golden + rng.standard_normal(golden.shape, np.float32) * np.float32(1e-3)
    return {
        name: _measured(
            verifier(name, {"k": K} if name == "TopK" else None), plain, golden, target, rounds
        )
        for name, plain in PLAIN.items()
    }


def _measured(
    configured: ConfiguredVerifier,
    plain: Callable[[Array, Array], float],
    golden: Array,
    target: Array,
    rounds: int,
) -> Measured:
    def ours() -> float:
        return configured.compare(golden, target).value

    def theirs() -> float:
        return plain(golden, target)

    peaks, values = [], []
    for call in (ours, theirs):
        tracemalloc.start()
        values.append(call())
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
    times: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        for call, taken in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            call()
            taken.append((time.perf_counter() - start) * 1e3)
    medians = [statistics.median(taken) for taken in times]
    return Measured(*medians, *peaks, *values)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elements", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.elements, options.rounds)
    if options.json:
        print(json.dumps({name: asdict(each) for name, each in found.items()}))
        return
    print(f"{'verifier':18}{'ms':>9}{'plain ms':>10}{'ratio':>7}{'MB':>8}{'plain MB':>10}")
    for name, each in found.items():
        print(
            f"{name:18}{each.ms:9.2f}{each.plain_ms:10.2f}{each.ms / each.plain_ms:7.2f}"
            f"{each.mb:8.2f}{each.plain_mb:10.1f}"
        )


if __name__ == "__main__":
    main()
