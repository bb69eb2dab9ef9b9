"""Measure finalizing a graph on `cpu`, restoring its image, and the library's calls alone.

    python -m benchmarks.restore MODEL.dvt [--rounds N] [--json]

Each measurement is a process of its own, in which the backend exists and nothing was computed
before; they alternate, and the medians are printed. The library's calls are those that create
the descriptors, primitives and memories of the restored graph, timed one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROLES = ("finalize", "restore", "calls")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path, help="a model with one graph")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--role", choices=ROLES, help=argparse.SUPPRESS)
    parser.add_argument("--image", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        print(json.dumps(_measured(options.role, options.model, options.image)))
        return
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image.bin"
        _in_process("finalize", options.model, image)  # writes the image, warms the file cache
        taken: dict[str, list[float]] = {role: [] for role in ROLES}
        for _ in range(options.rounds):
            for role in ROLES:
                taken[role].append(_in_process(role, options.model, image))
    medians = {role: statistics.median(times) for role, times in taken.items()}
    ratio = medians["restore"] / medians["calls"]
    if options.json:
        print(json.dumps({"median_ms": medians, "ratio": ratio}))
        return
    for role, median in medians.items():
        print(f"{role:10} {median:8.1f} ms")
    limit = 1.5 * medians["calls"] + 20
    print(f"restore takes {ratio:.2f} times the library's calls; limit {limit:.1f} ms")


def _in_process(role: str, model: Path, image: Path) -> float:
    """Return the milliseconds that a process of this role measures."""
    command = [sys.executable, "-m", "benchmarks.restore", str(model)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [*command, "--role", role, "--image", str(image)],
        check=True,
        stdout=subprocess.PIPE,
        env=environment,
    )
    return float(json.loads(done.stdout))


def _measured(role: str, model: Path, file: Path) -> float:
    # imported here: the process that compares the others needs none of this
    from dovetail.container import Model, WeightStore
    from dovetail.ops import check_ops
    from dovetail.plugins import load
    from dovetail.plugins.ops import installed_ops
    from dovetail.runtime.contract import Image, PrepareRequest

    ops = installed_ops()
    backend_class: Any = load("dovetail.backends", "cpu")
    backend = backend_class(ops, backend_class.configs.backend())
    context: Any = backend.open_context(None, None, WeightStore())
    if role == "finalize":
        (graph,) = Model.load(model).graphs.values()
        checked = check_ops(graph, ops)
        start = time.perf_counter()
        prepared = context.prepare(checked, PrepareRequest())
        taken = (time.perf_counter() - start) * 1e3
        if not file.exists():
            file.write_bytes(context.image({graph.name: prepared}).to_bytes())
        return taken
    image = Image.from_bytes(file.read_bytes())
    calls = _timed_calls() if role == "calls" else []
    start = time.perf_counter()
    context.restore(image, None, lambda _: PrepareRequest())
    return sum(calls) if role == "calls" else (time.perf_counter() - start) * 1e3


def _timed_calls() -> list[float]:
    """Time the library's calls that create objects; return the list of their milliseconds."""
    from dovetail_onednn import library

    taken: list[float] = []
    functions = library().functions
    for name, function in list(functions.items()):
        if "_create" not in name or name.startswith("stream"):
            continue

        def timed(*arguments: Any, function: Any = function) -> Any:
            start = time.perf_counter()
            status = function(*arguments)
            taken.append((time.perf_counter() - start) * 1e3)
            return status

        timed.argtypes = function.argtypes  # type: ignore[attr-defined]
        functions[name] = timed
    return taken


if __name__ == "__main__":
    main()
