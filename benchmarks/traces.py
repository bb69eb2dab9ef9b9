"""Listing of long traces, and replay compared with the program that was recorded.

    python -m benchmarks.traces

The long trace has a million executions. The program composes, finalizes and executes a network of
examples; the replay makes its calls. Both run in turns in this process, and the shortest time of
each counts: the machine may be busy.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import dovetail as dt
from benchmarks.recording import small_graph
from dovetail.ir import Array
from dovetail.runtime import Backend
from dovetail_saver.replay import Request, Session
from dovetail_saver.statistics import statistics
from dovetail_saver.trace import Trace

CALLS = 1_000_000
ROUNDS = 7
EXECUTES = 1000
MODEL = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
INPUTS = 16  # arrays that executes take in turns


def long_trace(folder: Path) -> Path:
    """Write a trace of many executes, by repeating the line of one."""
    short, long = folder / "short", folder / "long"
    with dt.record(short), Backend.create("cpu") as backend:
        small_graph(backend).execute({"x": np.ones((2, 3), np.float32)})
    lines = (short / "calls.jsonl").read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b'"graph_execute"' in line)
    long.mkdir()
    for name in ("trace.json", "params.bin"):
        (long / name).write_bytes((short / name).read_bytes())
    with (long / "calls.jsonl").open("wb") as file:  # without a mark, which has the count
        file.writelines(lines[:at])
        for _ in range(CALLS // 1000):
            file.write(lines[at] * 1000)
    return long


def program(model: dt.Model) -> None:
    """Make the calls that are recorded."""
    generator = np.random.default_rng(0)
    with Backend.create("cpu") as backend:
        (graph,) = backend.create_context().compose(model)
        graph.finalize()
        inputs: list[Mapping[str, Array]] = [
            {
                n: generator.random(e.shape).astype(e.storage)
                for n, e in graph.interface.inputs.items()
            }
            for _ in range(INPUTS)
        ]
        for i in range(EXECUTES):
            graph.execute(inputs[i % INPUTS])


def seconds(work: Callable[[], object]) -> float:
    """Return the duration of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = Trace(long_trace(folder))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rate = CALLS / min(seconds(lambda: statistics(trace)) for _ in range(3))
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"stats   {rate:10,.0f} calls/s, {growth:.1f} MB more memory for {CALLS:,} calls")
        model = dt.convert(MODEL)
        with dt.record(folder / "trace"):
            program(model)
        forms = {
            "program": lambda: program(model),
            "replay": lambda: Session(folder / "trace", Request()).run(),
            "compared": lambda: Session(folder / "trace", Request(compare=True)).run(),
        }
        times: dict[str, list[float]] = {form: [] for form in forms}
        for _ in range(ROUNDS):
            for form, work in forms.items():
                times[form].append(seconds(work))
        least = {form: min(found) for form, found in times.items()}
        for form, found in least.items():
            ratio = found / least["program"]
            print(
                f"{form:8} {found / EXECUTES * 1e6:8.1f} us an execute, {ratio:.2f} of the program"
            )


if __name__ == "__main__":
    main()
