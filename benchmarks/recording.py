"""Cost of recording the calls of the runtime API.

    python -m benchmarks.recording [--network]

For some calls: microseconds of a call alone, with a recorder that keeps no payloads, and of the
encoding of the same record with msgspec; minima of rounds in which all forms take turns. With
`--network`, also the executions of a network like MobileNetV2 on 8-bit integers: the time that a
recorder adds, and the spread between the network's runs.
"""

from __future__ import annotations

import argparse
import statistics
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

import dovetail as dt
from benchmarks.preparation import build
from dovetail.ir import DType, TensorKind
from dovetail.plugins.hooks import hooks
from dovetail.runtime import Backend, Graph
from dovetail.runtime.calls import CallRecord
from dovetail.runtime.calls.values import arguments_decoder, recorded_result
from dovetail_saver.recording import Recorder
from dovetail_saver.trace import Trace

ROUNDS = 40
CALLS = 500
RUNS = 300  # of the network
Call = Callable[[], object]


def per_call_us(call: Call) -> float:
    """Return the time of one call."""
    return timeit.timeit(call, number=CALLS) / CALLS * 1e6


def small_graph(backend: Backend) -> Graph:
    """Return a graph that computes next to nothing."""
    graph = backend.create_context().create_graph("g")
    x = graph.create_tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
    y = graph.create_tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
    graph.add_node("relu", "qti.aisw", "Relu", [x], [y])
    graph.finalize()
    return graph


def last_record(folder: Path, function: str) -> msgspec.Struct:
    """Return the last record of a call, with everything in it as typed objects."""
    found = [entry.record for entry in Trace(folder)]
    record = next(
        r for r in reversed(found) if isinstance(r, CallRecord) and r.function == function
    )
    changes: dict[str, Any] = {
        "arguments": arguments_decoder(function).decode(record.arguments),
        "result": recorded_result(record, function),
    }
    return msgspec.structs.replace(record, **changes)


def measure_calls(folder: Path) -> None:
    """Print the figures of some calls."""
    encoder = msgspec.json.Encoder()
    with Backend.create("cpu") as backend:
        graph = small_graph(backend)
        fed = {"x": np.ones((2, 3), np.float32)}
        given = {"y": np.ones((2, 3), np.float32)}
        calls: dict[str, Call] = {
            "backend_has_capability": lambda: backend.has_capability(105),
            "graph_execute": lambda: graph.execute(fed, given),
        }
        for function, call in calls.items():
            target = folder / function
            with Recorder(target, "none"):
                call()
            record = last_record(target, function)
            alone, recorded, encoded = list[float](), list[float](), list[float]()
            for i in range(ROUNDS):
                assert not hooks.active
                alone.append(per_call_us(call))
                with Recorder(folder / f"{function}-{i}", "none"):
                    recorded.append(per_call_us(call))
                encoded.append(per_call_us(partial(encoder.encode, record)))
            added = min(recorded) - min(alone)
            print(
                f"{function:24} {min(alone):6.2f} us, recorded {added:+6.2f} us, "
                f"encoding alone {min(encoded):5.2f} us"
            )


def measure_network(folder: Path) -> None:
    """Print what a recorder adds to executions of a network, and how these differ by themselves."""
    model, random = folder / "network.onnx", np.random.default_rng(1)
    build(name="mobilenet_v2", output=str(model))
    image = random.normal(size=(1, 3, 224, 224)).astype(np.float32)
    quantized = dt.quantize(model, [image])
    with dt.Session(quantized, backend="htp") as session:
        (graph,) = session.graphs.values()
        (tensor,) = graph.inputs
        name, stored = tensor.name, np.zeros(tensor.shape, tensor.dtype.storage)
        alone, recorded = list[float](), list[float]()
        for i in range(ROUNDS):
            alone += times_us(lambda: graph.execute({name: stored}))
            with Recorder(folder / f"network-{i}", "none"):
                recorded += times_us(lambda: graph.execute({name: stored}))
    low, middle, high = statistics.quantiles(alone, n=4)
    print(
        f"int8 MobileNetV2: {middle:.0f} us, quartiles {low:.0f} to {high:.0f}; "
        f"recorded {statistics.median(recorded) - middle:+.0f} us"
    )


def times_us(call: Call) -> list[float]:
    """Return the times of some calls."""
    return [timeit.timeit(call, number=1) * 1e6 for _ in range(RUNS // ROUNDS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", action="store_true", help="also measure a network")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        measure_calls(Path(folder))
        if given.network:
            measure_network(Path(folder))


if __name__ == "__main__":
    main()
