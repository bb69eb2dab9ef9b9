"""An application on the handle API: from a model or a context binary to outputs and a profile.

    python examples/sample_app/sample_app.py (--model FILE | --retrieve-context FILE.bin)
        [--backend NAME] [--save-context FILE.bin] [--rounds N] [--timeout MILLISECONDS]

It makes the same calls as an integrator's program would with QNN's C API, in this order: create a
log, a backend and a device; compose and finalize graphs, or create the context from its binary;
register shared memory; execute synchronously and asynchronously; read the profile; free everything.
Inputs are random; the point is the calls.
"""

from __future__ import annotations

import argparse
import sys
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np

import dovetail as dt
from dovetail import runtime
from dovetail.errors import DovetailError


class Buffers:
    """Shared memory for the inputs and outputs of a graph, which other processes could write.

    Args:
        graph: A finalized graph.

    Attributes:
        arrays: The memory of each tensor as an array of stored values.
        inputs, outputs: Its handles, which executions receive.
    """

    def __init__(self, graph: runtime.Graph) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._blocks: list[SharedMemory] = []
        interface = graph.interface
        self.inputs = {name: self._register(graph, end) for name, end in interface.inputs.items()}
        self.outputs = {name: self._register(graph, end) for name, end in interface.outputs.items()}

    def _register(self, graph: runtime.Graph, end: Any) -> runtime.Memory:
        block = SharedMemory(create=True, size=max(end.nbytes, 1))
        self._blocks.append(block)
        self.arrays[end.tensor.name] = np.ndarray(end.shape, end.storage, block.buf)
        return graph.context.register_memory(
            self.arrays[end.tensor.name], end.tensor.dtype, end.shape
        )

    def fill(self, seed: int) -> None:
        """Write random values into the inputs."""
        rng = np.random.default_rng(seed)
        for name in self.inputs:
            array = self.arrays[name]
            drawn = rng.random(array.shape) * (1 if array.dtype.kind == "f" else 100)
            array[...] = drawn.astype(array.dtype)

    def close(self) -> None:
        """Deregister and remove the memory."""
        for memory in (*self.inputs.values(), *self.outputs.values()):
            memory.deregister()
        self.arrays.clear()
        for block in self._blocks:
            block.close()
            block.unlink()


def graphs_of(
    backend: runtime.Backend, device: runtime.Device, profile: runtime.Profile, options: Any
) -> tuple[runtime.Context, list[runtime.Graph]]:
    """Return a context and its graphs, finalized."""
    if options.retrieve_context:
        binary = options.retrieve_context
        verdict = backend.validate_binary(binary, device).verdict
        print(f"{binary}: {verdict.name}")
        context = backend.create_context_from_binary(binary, device, None, profile)
        return context, [context.retrieve_graph(name) for name in context.graphs]
    context = backend.create_context(device)
    graphs = list(context.compose(dt.load_model(options.model)))
    for graph in graphs:
        graph.finalize(profile)
    return context, graphs


def run(graph: runtime.Graph, profile: runtime.Profile, options: Any) -> None:
    """Execute a graph in both ways, and print what it returns."""
    backend = graph.context.backend
    buffers = Buffers(graph)
    signal = backend.create_signal(runtime.SignalKind.TIMEOUT, options.timeout * 1000)
    try:
        for i in range(options.rounds):
            buffers.fill(i)
            graph.execute(buffers.inputs, buffers.outputs, profile, signal)
            synchronous = {name: buffers.arrays[name].copy() for name in buffers.outputs}
            done: list[BaseException | None] = []
            execution = graph.execute_async(
                buffers.inputs, buffers.outputs, profile, None, done.append
            )
            execution.wait()
            for name, wanted in synchronous.items():
                if not np.array_equal(buffers.arrays[name], wanted):
                    raise SystemExit(f"graph {graph.name}: output {name} differs")
        shapes = ", ".join(f"{name} {buffers.arrays[name].shape}" for name in buffers.outputs)
        print(f"graph {graph.name}: {shapes}; both ways return the same")
    finally:
        signal.free()
        buffers.close()


def show(profile: runtime.Profile) -> None:
    """Print the events of a profile, summed by type and graph."""
    totals: dict[tuple[str, str], list[float]] = {}
    for event in profile.get_events():
        kind = runtime.EventType(event.type).name.lower()
        totals.setdefault((kind, Path(event.identifier).name), []).append(event.value)
    for (kind, name), values in totals.items():
        print(f"{kind:8} {name:24} {len(values):4} times {np.mean(values):10.1f} us each")


def main() -> int:
    """Run the application; return its exit code."""
    parser = argparse.ArgumentParser(description="A sample application on the handle API.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", help="a .dvt file, or a file that can be converted")
    source.add_argument("--retrieve-context", help="a context binary")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--save-context", help="write the context to this file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=10_000, help="milliseconds for an execution")
    options = parser.parse_args()
    log = runtime.Log.create(runtime.LogLevel.ERROR)
    try:
        with runtime.Backend.create(options.backend) as backend:
            info = backend.get_platform_info()
            print(f"backend {backend.name}: {', '.join(d.name for d in info.devices)}")
            device, profile = backend.create_device(), backend.create_profile()
            context, graphs = graphs_of(backend, device, profile, options)
            for graph in graphs:
                run(graph, profile, options)
            if options.save_context:
                size = context.get_binary_size()
                Path(options.save_context).write_bytes(context.get_binary(np.empty(size, np.uint8)))
                print(f"{options.save_context}: {size:,} bytes")
            show(profile)
            context.free()
    except DovetailError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    finally:
        log.free()
    return 0


if __name__ == "__main__":
    sys.exit(main())
