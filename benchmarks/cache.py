"""Time from the start of a process to its first result: a cached context and ONNX Runtime.

    python -m benchmarks.cache [--network NAME] [--rounds N] [--threads N] [--processes N] [--json]

`dovetail` is `Session(model, cache=folder)` whose context is in the folder; ONNX Runtime loads the
model that its own optimizations wrote (`optimized_model_filepath`). Each measurement is a process
of its own: interpreter, imports, loading, and one run, until a line of its output is read here;
then its end, in which Python frees what was imported. They alternate, and the medians are printed.
All files are in the page cache. On Linux, the memory of several processes that have loaded the one
context is measured, too: the sum of their shares of pages (PSS), above an interpreter with NumPy.
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
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.process import ask, environment
from dovetail.errors import counted

_OURS = """
import sys
import numpy as np
from dovetail import Session
model, folder, inputs, threads = sys.argv[1:5]
session = Session(model, cache=folder, options={"num_threads": int(threads)})
session.run(dict(np.load(inputs)))
print("ready", flush=True)
"""
_THEIRS = """
import sys
import numpy as np
import onnxruntime
model, _, inputs, threads = sys.argv[1:5]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = int(threads), 1
options.log_severity_level = 3
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
session.run(None, dict(np.load(inputs)))
print("ready", flush=True)
"""
_OPTIMIZE = """
import sys
import onnxruntime
options = onnxruntime.SessionOptions()
options.optimized_model_filepath = sys.argv[2]
options.log_severity_level = 3
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print("ready", flush=True)
"""
# Follows what has run: waits until all processes have, and prints its share of memory.
_SHARE = """
sys.stdin.readline()
lines = open("/proc/self/smaps_rollup").read().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("Pss:")), flush=True)
sys.stdin.readline()
"""
_CACHED, _OPTIMIZED = "dovetail, cached", "onnxruntime, optimized"
_BASELINE = "import sys\nimport numpy as np\nprint('ready', flush=True)\n"


class Times(NamedTuple):
    """Times since the start of a process.

    Attributes:
        result_ms: To its first result.
        end_ms: To its end.
    """

    result_ms: float
    end_ms: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        commands = _commands(Path(name), given.network, given.threads)
        first = _run(*commands[_CACHED], given.threads)  # converts, prepares and writes
        time.sleep(2.5)  # a context that was just written is checked again at each use
        taken: dict[str, list[Times]] = {each: [] for each in commands}
        for _ in range(1 + given.rounds):
            for each, command in commands.items():
                taken[each].append(_run(*command, given.threads))
        memory = {}
        if sys.platform == "linux":
            code, arguments = commands[_CACHED]
            for count in (1, given.processes):
                shares = _shares(code, arguments, count, given.threads)
                memory[count] = shares - _shares(_BASELINE, arguments, count, given.threads)
    medians = {
        each: Times(*(statistics.median(column) for column in zip(*times[1:], strict=True)))
        for each, times in taken.items()
    }
    if given.json:
        found = {each: times._asdict() for each, times in medians.items()}
        print(json.dumps({"medians": found, "first": first._asdict(), "pss_mb": memory}))
        return
    print(f"{'ms':24} {'to result':>10} {'to end':>10}")
    for each, median in {**medians, "without a context": first}.items():
        print(f"{each:24} {median.result_ms:10.1f} {median.end_ms:10.1f}")
    ours, theirs = medians[_CACHED], medians[_OPTIMIZED]
    ratios = (own / other for own, other in zip(ours, theirs, strict=True))
    print("{:24} {:10.2f} {:10.2f}  (target: a result in at most 1)".format("ratio", *ratios))
    for count, size in memory.items():
        print(f"{counted(count, 'process', 'processes'):24} {size:10.1f} MB above NumPy")


def _commands(folder: Path, network: str, threads: int) -> dict[str, tuple[str, list[str]]]:
    """Write a model and its inputs; return code and arguments of both processes by name."""
    model, inputs = folder / "model.onnx", folder / "inputs.npz"
    ask("preparation:build", {"name": network, "output": str(model)}, threads=threads)
    drawn = {"model": str(model), "output": str(inputs)}
    ask("preparation:draw_inputs", drawn, threads=threads)
    os.utime(model, (0, 0))  # as if it was not written just now, so that its hash is kept
    optimized = folder / "optimized.onnx"
    _run(_OPTIMIZE, [str(model), str(optimized)], threads)
    common = [str(folder / "cache"), str(inputs), str(threads)]
    return {
        _CACHED: (_OURS, [str(model), *common]),
        _OPTIMIZED: (_THEIRS, [str(optimized), *common]),
    }


def _run(code: str, arguments: Sequence[str], threads: int) -> Times:
    """Run code that prints a line in a process."""
    command = [sys.executable, "-c", code, *arguments]
    start = time.perf_counter()
    with subprocess.Popen(
        command, env=environment(threads), stdout=subprocess.PIPE, text=True
    ) as process:
        _line(process)
        result = time.perf_counter()
        process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Times((result - start) * 1e3, (time.perf_counter() - start) * 1e3)


def _shares(code: str, arguments: Sequence[str], count: int, threads: int) -> float:
    """Return the memory of processes that run code together, in MB."""
    command = [sys.executable, "-c", code + _SHARE, *arguments]
    running = [
        subprocess.Popen(
            command,
            env=environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    sizes = []
    for process in running:
        _line(process)
    for process in running:
        _send(process)
        sizes.append(int(_line(process)) * 1024 / 1e6)
    for process in running:
        process.communicate("\n")
    return sum(sizes)


def _line(process: subprocess.Popen[str]) -> str:
    if process.stdout is None:
        raise AssertionError("no pipe")
    return process.stdout.readline()


def _send(process: subprocess.Popen[str]) -> None:
    if process.stdin is None:
        raise AssertionError("no pipe")
    process.stdin.write("\n")
    process.stdin.flush()


if __name__ == "__main__":
    main()
