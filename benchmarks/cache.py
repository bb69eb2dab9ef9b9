"""Time from the start of a process to its first result: a cached context and ONNX Runtime.

    python -m benchmarks.cache [--network NAME] [--rounds N] [--threads N] [--processes N] [--json]

`dovetail` is `Session(model, cache=folder)` whose context is in the folder; ONNX Runtime loads the
model that its own optimizations wrote (`optimized_model_filepath`). Each measurement is a whole
process: interpreter, imports, loading, and one run. They alternate, and the medians are printed.
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

from benchmarks.process import ask, environment

_OURS = """
import sys
import numpy as np
from dovetail import Session
model, folder, inputs, threads = sys.argv[1:5]
session = Session(model, cache=folder, options={"num_threads": int(threads)})
session.run(dict(np.load(inputs)))
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
"""
_OPTIMIZE = """
import sys
import onnxruntime
options = onnxruntime.SessionOptions()
options.optimized_model_filepath = sys.argv[2]
options.log_severity_level = 3
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""
# Follows `_OURS`: waits until all processes have run, and prints its share of memory.
_SHARE = """
print("ready", flush=True)
sys.stdin.readline()
lines = open("/proc/self/smaps_rollup").read().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("Pss:")), flush=True)
sys.stdin.readline()
"""
_CACHED, _OPTIMIZED = "dovetail, cached", "onnxruntime, optimized"
_BASELINE = "import sys\nimport numpy as np\n"


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
        first_ms = _run(*commands[_CACHED], given.threads)  # converts, prepares and writes
        time.sleep(2.5)  # a context that was just written is checked again at each use
        taken: dict[str, list[float]] = {each: [] for each in commands}
        for _ in range(1 + given.rounds):
            for each, command in commands.items():
                taken[each].append(_run(*command, given.threads))
        memory = {}
        if sys.platform == "linux":
            code, arguments = commands[_CACHED]
            for count in (1, given.processes):
                shares = _shares(code, arguments, count, given.threads)
                memory[count] = shares - _shares(_BASELINE, arguments, count, given.threads)
    medians = {each: statistics.median(times[1:]) for each, times in taken.items()}
    ratio = medians[_CACHED] / medians[_OPTIMIZED]
    if given.json:
        print(json.dumps({"median_ms": medians, "first_ms": first_ms, "pss_mb": memory}))
        return
    for each, median in medians.items():
        print(f"{each:24} {median:8.1f} ms")
    print(f"ratio                    {ratio:8.2f}      (target: at most 1)")
    print(f"without a cached context {first_ms:8.1f} ms")
    for count, size in memory.items():
        print(f"{count} process(es)            {size:8.1f} MB above NumPy")


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


def _run(code: str, arguments: Sequence[str], threads: int) -> float:
    """Run code in a process; return the milliseconds that it took."""
    command = [sys.executable, "-c", code, *arguments]
    start = time.perf_counter()
    subprocess.run(command, check=True, env=environment(threads), stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1e3


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
