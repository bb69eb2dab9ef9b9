"""Measure `dovetail.convert` next to ONNX Runtime, which loads and optimizes the same model.

    python -m benchmarks.conversion [--rounds N] [--nodes 5000,10000,20000] [--json]

The models are MobileNetV2 and chains of nodes, which show whether the time is linear. Both engines
read the file in every round, in turns in one process, with one thread and their default
optimizations. User time of the processor is less affected by other processes than wall time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import onnx

from benchmarks import tables
from benchmarks.chains import units
from benchmarks.machine import machine
from benchmarks.measure_conversion import OURS, PEER
from benchmarks.process import ask

NETWORK = "mobilenet_v2"
Times = Mapping[str, Sequence[tuple[float, float]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="of the network; a third of chains")
    parser.add_argument("--nodes", default="5000,10000,20000", help="lengths of the chains")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    counts = [int(count) for count in options.nodes.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        network = Path(folder) / f"{NETWORK}.onnx"
        ask("preparation:build", {"name": NETWORK, "output": str(network)}, threads=1)
        found = {NETWORK: _measured(network, options.rounds)}
        nodes = {NETWORK: len(onnx.load(network).graph.node)}
        for count in counts:
            chain = Path(folder) / f"chain-{count}.onnx"
            onnx.save(units(count=count), chain)
            found[chain.stem] = _measured(chain, max(1, options.rounds // 3))
            nodes[chain.stem] = count
    if options.json:
        print(json.dumps({"machine": machine(), "nodes": nodes, "ms": found}))
    else:
        print("\n".join(f"{key}: {value}" for key, value in machine().items()))
        print(f"\n{table(found, nodes)}")
    return 0


def _measured(model: Path, rounds: int) -> Times:
    found: Times = ask(
        "measure_conversion:measure", {"model": str(model), "rounds": rounds}, threads=1
    )
    return found


def table(found: Mapping[str, Times], nodes: Mapping[str, int]) -> str:
    """Return medians: wall and user time, our time per node, the median ratio of the rounds."""
    head = ["model", "nodes"]
    for kind in ("wall", "user"):
        head += [f"{kind} ms, ours", "ONNX Runtime", "ratio"]
    head.append("user us a node")
    rows = []
    for name, times in found.items():
        row = [name, f"{nodes[name]:,}"]
        for i in range(2):
            ours, theirs = ([each[i] for each in times[engine]] for engine in (OURS, PEER))
            ratio = median(a / max(b, 0.1) for a, b in zip(ours, theirs, strict=True))
            row += [f"{median(ours):.0f}", f"{median(theirs):.0f}", f"{ratio:.2f}"]
        row.append(f"{median(t for _, t in times[OURS]) / nodes[name] * 1e3:.0f}")
        rows.append(row)
    return tables.table(head, rows)


if __name__ == "__main__":
    sys.exit(main())
