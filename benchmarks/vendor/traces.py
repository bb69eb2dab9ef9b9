"""Programs of the vendor's Saver, imported and replayed; each function runs in a process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import Array, write_arrays
from benchmarks.vendor.comparison import compare
from dovetail.ir import Graph, Node
from dovetail.runtime import Graph as RuntimeGraph
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace
from dovetail_saver.vendor.exporter import PAYLOADS_NAME, PROGRAM_NAME, export_program
from dovetail_saver.vendor.importer import import_program

# Ops that only move stored values.
_MOVES = ("Reshape", "Transpose")


def replay_program(*, folder: str, backend: str, outputs: str) -> dict[str, Any]:
    """Import a program, replay it, and write the outputs of all executions, stacked.

    Args:
        folder: Of the program and its payloads; the trace is written there.
        backend: Our backend.
        outputs: The file to write, `.npz`.

    Returns:
        Numbers of calls, of nodes and of calls left out, the rejected calls, the time of the
        import, sizes, and whether the program that we write of the trace has the same trace.
    """
    source = Path(folder)
    program, params = source / PROGRAM_NAME, source / PAYLOADS_NAME
    start = time.perf_counter()
    summary = import_program(program, params, source / backend, backend)
    import_ms = (time.perf_counter() - start) * 1e3
    found, rejected = [], []
    for played in replay(Trace(source / backend)):
        if played.error is not None:
            rejected.append(f"call {played.record.number}: {played.error}")
        elif isinstance(played.result, dict):  # the outputs of an execution
            found.append({name: np.array(values) for name, values in played.result.items()})
    if found:
        write_arrays(outputs, {n: np.stack([each[n] for each in found]) for n in found[0]})
    return {
        "calls": sum(summary.calls.values()),
        "nodes": summary.calls["graph_add_node"],
        "left_out": summary.left_out_count,
        "rejected": rejected,
        "import_ms": import_ms,
        "c_mb": program.stat().st_size / 1e6,
        "params_mb": params.stat().st_size / 1e6,
        "is_exact": _is_restored(source, source / backend, backend),
    }


def _is_restored(folder: Path, trace: Path, backend: str) -> bool:
    """Return whether a trace is the same after its export and import."""
    again, written = folder / "again", folder / "written"
    export_program(trace, written)
    import_program(written / PROGRAM_NAME, written / PAYLOADS_NAME, again / backend, backend)
    files = [path.name for path in trace.iterdir()]
    same = all(
        (trace / name).read_bytes() == (again / backend / name).read_bytes() for name in files
    )
    return same and bool(files)


def compare_nodes(*, trace: str, outputs: str, names: list[str]) -> list[dict[str, Any]]:
    """Compare each quantized node of a trace with the simulator's outputs.

    Args:
        trace: Of a network whose outputs are the integers between its nodes.
        outputs: The simulator's outputs, `.npz`.
        names: Their names, in order.
    """
    graph = _composed(Trace(trace))
    with np.load(outputs) as arrays:
        found = {name: arrays[str(i)] for i, name in enumerate(names)}
    theirs = {name: values for name, values in found.items() if name in graph.tensors}
    return [asdict(result) for result in compare(graph, moved(graph, theirs))]


def _composed(trace: Trace) -> Graph:
    """Return the only graph of a trace, composed by its calls."""
    graphs = []
    for played in replay(trace):
        if isinstance(played.result, RuntimeGraph):
            graphs.append(played.result.ir)
    (graph,) = graphs
    return graph


def moved(graph: Graph, known: Mapping[str, Array]) -> dict[str, Array]:
    """Return known values, and those of tensors with the same integers in another order.

    ONNX Runtime adds transposes, whose other sides are no outputs of the model.

    Args:
        graph: The graph.
        known: Stored values by tensor, with a first axis of samples.
    """
    found = dict(known)
    nodes = [node for node in graph.nodes if node.op_type in _MOVES]
    for order in (nodes, nodes[::-1], nodes):
        for node in order:
            _move(node, found)
    return found


def _move(node: Node, found: dict[str, Array]) -> None:
    source, target = node.inputs[0], node.outputs[0]
    if source is None or source.encoding != target.encoding:
        return
    perm = None
    if node.op_type == "Transpose":
        param = node.params["perm"]
        perm = [int(axis) + 1 for axis in param.values().reshape(-1)]  # type: ignore[union-attr]
    if source.name in found and target.name not in found:
        values = found[source.name]
        values = values if perm is None else values.transpose([0, *perm])
        found[target.name] = values.reshape(len(values), *target.shape)
    elif target.name in found and source.name not in found:
        values = found[target.name]
        back = None if perm is None else np.argsort([0, *perm])
        values = values if back is None else values.transpose(back)
        found[source.name] = values.reshape(len(values), *source.shape)
