"""Cost of switching between two graphs of a context, both of them ready to run.

    python -m benchmarks.switching [--backend NAME] [--rounds N]

For pairs of networks: the time of an execution of each when it is repeated, when both run
alternately, and the difference. These are medians of rounds in which both forms take turns, and
each round has the median of its executions. Inputs and outputs are registered memory. What a switch
costs is the state that a graph leaves in the caches of the processor: nothing is loaded, allocated
or bound again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import dovetail as dt
from benchmarks.preparation import build
from dovetail.runtime import Graph, Memory, SharedBuffers

PAIRS = (("adds", "digits"), ("digits", "squeezenet"), ("squeezenet", "mobilenet_v2"))
ROUNDS = 30
SECONDS = 0.05  # of a form in a round, about
Prepared = tuple[Graph, Mapping[str, Memory], Mapping[str, Memory]]


@dataclass(frozen=True, slots=True)
class Times:
    """The times of an execution of a network in microseconds, by round."""

    repeated: list[float]
    alternating: list[float]

    @property
    def medians(self) -> tuple[float, float, float]:
        """The time of a repeated execution, of an alternating one, and what a switch adds."""
        both = zip(self.repeated, self.alternating, strict=True)
        added = statistics.median(after - before for before, after in both)
        return statistics.median(self.repeated), statistics.median(self.alternating), added


def times_us(order: Sequence[Prepared]) -> list[float]:
    """Return the times of executions, one after another."""
    found = []
    for graph, inputs, outputs in order:
        start = time.perf_counter()
        graph.execute(inputs, outputs)
        found.append((time.perf_counter() - start) * 1e6)
    return found


def measure(models: Sequence[dt.Model], backend: str, rounds: int) -> list[Times]:
    """Return the times of two networks whose graphs share a context.

    Args:
        models: The networks, with different graph names.
        backend: Name of the backend.
        rounds: Number of rounds.
    """
    with dt.Session(list(models), backend=backend) as session:
        buffers = [SharedBuffers(graph) for graph in session.graphs.values()]
        random = np.random.default_rng(0)
        pair: list[Prepared] = []
        for graph, each in zip(session.graphs.values(), buffers, strict=True):
            for name in each.inputs:
                array = each.arrays[name]
                array[...] = random.random(array.shape) * 100
            pair.append((graph, each.inputs, each.outputs))
        whole = sum(times_us([*pair, *pair])[2:]) / 1e6  # the first two bind their memory
        count = max(3, round(SECONDS / whole))
        found = [Times([], []) for _ in pair]
        for _ in range(rounds):
            for times, one in zip(found, pair, strict=True):
                times.repeated.append(statistics.median(times_us([one] * count)[1:]))
            mixed = times_us(pair * count)
            for i, times in enumerate(found):
                times.alternating.append(statistics.median(mixed[i + 2 :: 2]))
        for each in buffers:
            each.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    print(f"{'graph':14} {'next to':14} repeated, us  alternating, us   added, us")
    with TemporaryDirectory() as folder:
        models: dict[str, dt.Model] = {}
        for name in dict.fromkeys(name for pair in PAIRS for name in pair):
            path = Path(folder) / f"{name}.onnx"
            build(name=name, output=str(path))
            models[name] = dt.convert(path)
        for pair in PAIRS:
            found = measure([models[name] for name in pair], given.backend, given.rounds)
            for name, other, times in zip(pair, reversed(pair), found, strict=True):
                repeated, alternating, added = times.medians
                print(f"{name:14} {other:14} {repeated:12.1f} {alternating:16.1f} {added:+11.1f}")


if __name__ == "__main__":
    main()
