"""Measure context binaries: loading next to preparing, adapters, and the sizes of files and memory.

    python -m benchmarks.contexts [MODEL.dvt ...] [--rounds N] [--backend NAME] [--json]

Without models, it makes networks of its own. Each measurement is a process of its own, in which the
backend exists and nothing was computed before; they alternate, and the medians are printed. The
page cache is warm. The library's calls are those that create the descriptors, primitives and
memories of the restored graph, timed one by one. Finalizing includes the import of the kernels,
which loading does without.
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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# What a process measures, and what the figure is.
ROLES: Mapping[str, str] = {
    "finalize": "finalize a loaded model",
    "prepared run": "compose, finalize and run",
    "load": "load the context binary",
    "loaded run": "load and run",
    "calls": "the library's calls alone",
    "update": "update an adapter's tensors and finalize",
    "pack": "of that the packing alone",
    "apply": "apply the adapter's section",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", type=Path, nargs="*", help="models with one graph each")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        print(json.dumps(_measured(options.role, options.models[0], options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        models = options.models or _own_models(root)
        found = {m.stem: _compared(m, root / m.stem, options) for m in models}
        if not options.models:
            found |= _sizes(root, options)
    if options.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        print(name)
        for figure, value in figures.items():
            print(f"  {ROLES.get(figure, figure):44} {value:10.2f}")


def _own_models(root: Path) -> list[Path]:
    """Save a network of 10 MB, one of 1 GB, and one of 100 MB with an adapter of 1 %."""
    from dovetail.container import Model, Producer
    from dovetail.plugins.ops import installed_ops

    found = []
    for name, layers, width, rank in (
        ("dense_10MB", 10, 512, 0),
        ("dense_1GB", 16, 4096, 0),
        ("adapted_100MB", 25, 1024, 5),
    ):
        graph = _dense(name, layers, width, rank)
        made = Model.of(graph, producer=Producer("benchmark", "1"), registry=installed_ops())
        found.append(root / f"{name}.dvt")
        made.save(found[-1])
    return found


def _dense(name: str, layers: int, width: int, rank: int) -> Any:
    """Return fully connected layers, with a branch of updateable weights of a rank in each."""
    import numpy as np

    from dovetail.ir import DType, Graph, Tensor, TensorKind
    from dovetail_opset.build import add, static

    graph, rng = Graph(name), np.random.default_rng(0)
    y = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, width), TensorKind.APP_WRITE))
    for i in range(layers):
        weight = static(graph, f"w{i}", _drawn(rng, width, width))
        out = add(graph, "FullyConnected", [y, weight], name=f"layer{i}")
        if rank:
            down, up = (
                static(graph, f"{part}{i}", _drawn(rng, *shape))
                for part, shape in (("down", (rank, width)), ("up", (width, rank)))
            )
            down.kind = up.kind = TensorKind.UPDATEABLE_STATIC
            inner = add(graph, "FullyConnected", [y, down], name=f"down_of{i}")
            branch = add(graph, "FullyConnected", [inner, up], name=f"up_of{i}")
            out = add(graph, "ElementWiseAdd", [out, branch], name=f"sum{i}")
        y = add(graph, "Relu", [out], name=f"relu{i}")
    y.kind = TensorKind.APP_READ
    return graph


def _drawn(rng: Any, *shape: int) -> Any:
    import numpy as np

    return (rng.standard_normal(shape, np.float32) / np.sqrt(shape[-1])).astype(np.float32)


def _compared(model: Path, folder: Path, options: Any) -> dict[str, float]:
    """Return the medians of all roles in milliseconds, and their ratios."""
    folder.mkdir()
    has_adapter = _in_process("write", model, folder, options)
    roles = [r for r in ROLES if has_adapter or r not in ("update", "pack", "apply")]
    if options.backend == "gpu":
        roles.remove("calls")
    taken: dict[str, list[float]] = {role: [] for role in roles}
    for _ in range(options.rounds):
        for role in roles:
            taken[role].append(_in_process(role, model, folder, options))
    found = {role: statistics.median(times) for role, times in taken.items()}
    found["file MB"] = (folder / "context.bin").stat().st_size / 1e6
    found["finalize / load"] = found["finalize"] / found["load"]
    found["prepared run / loaded run"] = found["prepared run"] / found["loaded run"]
    if "calls" in found:
        found["load, limit: 1.5 calls + 20 ms"] = 1.5 * found["calls"] + 20
    if has_adapter:
        found["finalize / apply"] = found["finalize"] / found["apply"]
        found["apply / pack"] = found["apply"] / found["pack"]
    return found


def _sizes(root: Path, options: Any) -> dict[str, dict[str, float]]:
    """Return the sizes of files with several graphs that share weights, next to single ones."""
    import numpy as np

    import dovetail as dt
    from dovetail.container import Model, Producer
    from dovetail.ir import DType, Graph, Tensor, TensorKind
    from dovetail.plugins.ops import installed_ops
    from dovetail_opset.build import add, static

    rng, width = np.random.default_rng(0), 1024
    weights = [_drawn(rng, width, width) for _ in range(10)]
    tuned = [w if i % 10 >= 3 else _drawn(rng, width, width) for i, w in enumerate(weights)]

    def model(name: str, rows: int, constants: list[Any]) -> Model:
        graph = Graph(name)
        y = graph.add_tensor(Tensor("x", DType.FLOAT_32, (rows, width), TensorKind.APP_WRITE))
        for i, array in enumerate(constants):
            weight = static(graph, f"w{i}", array)
            y = add(graph, "FullyConnected", [y, weight], name=f"layer{i}")
        y.kind = TensorKind.APP_READ
        return Model.of(graph, producer=Producer("benchmark", "1"), registry=installed_ops())

    def size(models: list[Model]) -> int:
        file = root / "sizes.bin"
        with dt.Session(models, backend=options.backend) as session:
            session.save_context(file)
        return file.stat().st_size

    lengths = [model(f"rows{n}", n, weights) for n in range(8, 136, 8)]
    single = max(size([lengths[0]]), size([lengths[-1]]))
    base, other = model("base", 8, weights), model("tuned", 8, tuned)
    return {
        "sizes of files, as multiples of the larger single one": {
            "two graphs with the same weights": size([lengths[0], lengths[-1]]) / single,
            "16 graphs with the same weights": size(lengths) / single,
            "a base and one with 30 % other weights": size([base, other]) / size([base]),
        }
    }


def _in_process(role: str, model: Path, folder: Path, options: Any) -> float:
    """Return what a process of this role measures, in milliseconds."""
    command = [sys.executable, "-m", "benchmarks.contexts", str(model), "--role", role]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [*command, "--folder", str(folder), "--backend", options.backend],
        check=True,
        stdout=subprocess.PIPE,
        env=environment,
    )
    return float(json.loads(done.stdout))


def _measured(role: str, path: Path, options: Any) -> float:
    # imported here: the process that compares the others needs none of this
    from dovetail.container import Model
    from dovetail.runtime import Backend

    backend = Backend.create(options.backend)
    binary, section = options.folder / "context.bin", options.folder / "adapter.bin"
    if role == "write":
        return _write(backend, Model.load(path), binary, section)
    if role in ("finalize", "prepared run"):
        return _prepared(backend, Model.load(path), runs=role == "prepared run")
    if role in ("update", "pack", "apply"):
        return _adapted(role, backend, binary, section)
    calls = _timed_calls() if role == "calls" else []
    start = time.perf_counter()
    context = backend.create_context_from_binary(binary)
    if role == "loaded run":
        (graph,) = context.graphs.values()
        graph.execute(_feeds(graph))
    return sum(calls) if role == "calls" else _since(start)


def _prepared(backend: Any, model: Any, *, runs: bool) -> float:
    context = backend.create_context()
    composing = time.perf_counter()
    (graph,) = context.compose(model)
    start = composing if runs else time.perf_counter()
    graph.finalize()
    if runs:
        graph.execute(_feeds(graph))
    return _since(start)


def _write(backend: Any, model: Any, binary: Path, section: Path) -> bool:
    """Write a context binary and a section of other values; return whether there is one."""
    context = backend.create_context()
    (graph,) = context.compose(model)
    graph.finalize()
    context.save(binary)
    graph.execute(_feeds(graph))
    if not (names := _updateable(graph)):
        return False
    _update(graph, names)
    graph.finalize()
    section.write_bytes(context.get_binary_section())
    return True


def _adapted(role: str, backend: Any, binary: Path, section: Path) -> float:
    """Return the time of applying an adapter, or of updating the same tensors."""
    context = backend.create_context_from_binary(binary)
    (graph,) = context.graphs.values()
    graph.execute(_feeds(graph))
    if role == "apply":
        data = section.read_bytes()
        context.apply_binary_section(data)  # once: the first use loads code
        start = time.perf_counter()
        context.apply_binary_section(data)
        return _since(start)
    packing = _timed_packing() if role == "pack" else []
    names = _updateable(graph)
    for _ in range(2):  # the first update finds the makers of forms
        packing.clear()
        start = time.perf_counter()
        _update(graph, names)
        graph.finalize()
        taken = _since(start)
    return sum(packing) if role == "pack" else taken


def _updateable(graph: Any) -> list[str]:
    return [name for name, t in graph.ir.tensors.items() if t.kind.is_updateable]


def _update(graph: Any, names: list[str]) -> None:
    for name in names:
        tensor = graph.retrieve_tensor(name)
        graph.update_tensor(tensor, tensor.ir.stored() * 0.5)


def _feeds(graph: Any) -> dict[str, Any]:
    import numpy as np

    return {name: np.ones(end.shape, end.storage) for name, end in graph.interface.inputs.items()}


def _timed_calls() -> list[float]:
    """Time the library's calls that create objects; return the list of their milliseconds."""
    from dovetail_onednn import library

    taken: list[float] = []
    functions = library().functions
    for name, function in list(functions.items()):
        if "_create" not in name or name.startswith("stream"):
            continue
        timed = _timed(function, taken)
        timed.argtypes = function.argtypes  # type: ignore[attr-defined]
        functions[name] = timed
    return taken


def _timed_packing() -> list[float]:
    """Time the packing of updateable tensors; return the list of milliseconds."""
    from dovetail.runtime.plan.slots import Slot

    taken: list[float] = []
    Slot.computed = _timed(Slot.computed, taken)  # type: ignore[method-assign]
    return taken


def _timed(function: Callable[..., Any], taken: list[float]) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = function(*arguments)
        taken.append(_since(start))
        return result

    return timed


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    main()
