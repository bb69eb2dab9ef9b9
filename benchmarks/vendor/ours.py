"""Our part of the comparison; each function runs in a process of its own."""

from __future__ import annotations

import importlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx

import dovetail
from benchmarks.engines import Array, write_arrays
from benchmarks.preparation import free_inputs, shape_of
from benchmarks.process import NETWORK_HELPERS
from benchmarks.quantization.preparation import SEEDS, drawn
from benchmarks.quantization.subjects import TRAINED
from benchmarks.vendor.comparison import compare
from benchmarks.vendor.subjects import SUBJECTS, Subject
from benchmarks.vendor.tensors import Stored, export_exposed
from dovetail.container import Model
from dovetail.ir import Graph

# At least as many runs are timed, and for as long, but not much longer than the last.
REPEATS, SECONDS, LONGEST = 20, 1.0, 10.0


def prepare(*, network: str, folder: str, act_bitwidth: int) -> None:
    """Write a network's files: float and quantized, ONNX with and without inner outputs, images."""
    subject, target = SUBJECTS[network], Path(folder)
    data = _data(subject, target / "network.onnx")
    model = dovetail.convert(data.pop("path"))
    quantized = dovetail.quantize(
        model, list(data.pop("calibration")), act_bitwidth=act_bitwidth, **subject.options
    )
    model.save(target / "float.dvt")
    quantized.save(target / "quantized.dvt")
    dovetail.export(quantized, target / "plain.onnx")
    dovetail.export(model, target / "float.onnx")
    graph = _only_graph(quantized)
    exposed = export_exposed(graph, target / "exposed.onnx")
    described = {name: asdict(stored) for name, stored in exposed.items()}
    (target / "tensors.json").write_text(json.dumps(described), encoding="utf-8")
    given = graph.inputs[0].name
    write_arrays(str(target / "images.npz"), {given: data["test"]})
    write_arrays(str(target / "few.npz"), {given: data["test"][: subject.nodes]})
    if "labels" in data:
        write_arrays(str(target / "labels.npz"), {"labels": data["labels"]})


def _data(subject: Subject, path: Path) -> dict[str, Any]:
    """Return the path of the float network, images and labels; write a drawn network."""
    sys.path.append(str(NETWORK_HELPERS))  # the tests' helpers, which no dist contains
    if subject.recipe is None:
        trained = importlib.import_module("trained")
        images, labels = trained.held_out()
        return {
            "path": TRAINED[subject.trained],
            "calibration": trained.calibration(subject.calibration)[:, None],
            "test": images[: subject.test, None],
            "labels": labels[: subject.test],
        }
    recipe = subject.recipe
    model = getattr(importlib.import_module(recipe.module), recipe.maker)(**recipe.arguments)
    onnx.save(model, path)
    (given,) = free_inputs(model.graph)
    counts = {"calibration": subject.calibration, "test": subject.test}
    shape = shape_of(given)
    return {"path": path} | {name: drawn(shape, n, SEEDS[name]) for name, n in counts.items()}


def compare_nodes(*, folder: str, outputs: str, names: list[str]) -> list[dict[str, Any]]:
    """Compare each node of a network with the simulator's outputs.

    Args:
        folder: Of the files that `prepare` wrote.
        outputs: The outputs, `.npz`.
        names: Their names, in order.
    """
    source = Path(folder)
    graph = _only_graph(dovetail.load(source / "quantized.dvt"))
    described = json.loads((source / "tensors.json").read_text("utf-8"))
    with np.load(outputs) as arrays:
        found = {name: arrays[str(i)] for i, name in enumerate(names)}
    theirs: dict[str, Array] = {}
    for name, each in described.items():
        stored = Stored(each["value"], tuple(map(tuple, each["perms"])), each["added"])
        tensor = graph.tensors[name]
        theirs[name] = np.stack([stored.ours(values, tensor) for values in found[stored.value]])
    return [asdict(result) for result in compare(graph, theirs)]


def run_all(
    *, model: str, backend: str, images: str, outputs: str, threads: int
) -> dict[str, float]:
    """Run a model on all images; return the median time of a run."""
    with np.load(images) as arrays:
        given = dict(arrays)
    config = {"backend": {backend: {"num_threads": threads}}}
    with dovetail.Session(model, backend=backend, config=config) as session:
        samples = [
            {n: values[i] for n, values in given.items()}
            for i in range(len(next(iter(given.values()))))
        ]
        found = [session.run(sample) for sample in samples]
        times: list[float] = []
        while (len(times) < REPEATS or sum(times) < SECONDS) and sum(times) < LONGEST:
            start = time.perf_counter()
            session.run(samples[len(times) % len(samples)])
            times.append(time.perf_counter() - start)
    write_arrays(outputs, {n: np.stack([each[n] for each in found]) for n in found[0]})
    return {"run_ms": median(times) * 1e3}


def _only_graph(model: Model) -> Graph:
    (graph,) = model.graphs.values()
    return graph
