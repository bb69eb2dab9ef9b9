"""Cached model files, which are rebuilt when their sources have changed."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.process import NETWORK_HELPERS, ROOT, ask
from benchmarks.recipes import RECIPES

FOLDER = Path(__file__).parent / ".cache"
# Sources of the models, and of their conversion.
MODEL_SOURCES = (
    NETWORK_HELPERS / "networks",
    *(ROOT / "benchmarks" / f"{name}.py" for name in ("chains", "preparation")),
)
QUANTIZER_SOURCES = (ROOT / "benchmarks" / "quantization",)
CONVERTER_SOURCES = (ROOT / "core" / "src", ROOT / "plugins")


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one network.

    Attributes:
        onnx: The model that the peers load.
        dvt: The model that we load.
        inputs: Drawn values by input name, `.npz`.
        reference: ONNX Runtime's outputs for them by name, `.npz`.
        int8: The network that we quantized, with 8-bit activations.
        int16: The same with 16-bit activations.
        qdq: The network that ONNX Runtime quantized, in its format QDQ, for the peers.
        dynamic: The network whose weights ONNX Runtime quantized, and activations in each run.
        dynamic_dvt: The same, converted.
    """

    onnx: Path
    dvt: Path
    inputs: Path
    reference: Path
    int8: Path
    int16: Path
    qdq: Path
    dynamic: Path
    dynamic_dvt: Path


def prepare(name: str, folder: Path, *, threads: int) -> Files:
    """Return a network's files; build those that are missing or out of date.

    Raises:
        ProcessFailedError: A file could not be built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = _files(name, folder)
    wanted = {files.onnx, files.dvt, files.inputs, files.reference}
    for stale in set(folder.glob(f"{name}-*")) - wanted:
        stale.unlink()
    _build(files.onnx, "preparation:build", {"name": name}, threads)
    model = {"model": str(files.onnx)}
    _build(files.inputs, "preparation:draw_inputs", model, threads)
    _build(files.dvt, "preparation:convert", model, threads)
    asked = model | {"engine": "onnxruntime", "inputs": str(files.inputs)}
    _build(files.reference, "engines:run_once", asked, threads)
    return files


def quantize(files: Files, models: Collection[str], *, threads: int) -> None:
    """Build quantized networks of a prepared one, calibrated with its inputs, unless they exist.

    Args:
        files: Those of the network.
        models: Some of `int8`, `int16`, `qdq`, `dynamic` and `dynamic_dvt`.
        threads: Number of threads.

    Raises:
        ProcessFailedError: A file could not be built.
    """
    wanted = {files.int8, files.int16, files.qdq, files.dynamic, files.dynamic_dvt}
    for stale in set(files.qdq.parent.glob(f"{files.qdq.name.rpartition('_')[0]}_*")) - wanted:
        stale.unlink()
    task = "quantization.quantizers:quantize"
    with tempfile.TemporaryDirectory() as folder:
        data, prepared = str(Path(folder) / "data.npz"), str(Path(folder) / "prepared.onnx")
        asked = {"inputs": str(files.inputs), "output": data}
        ask("quantization.preparation:calibrate_with", asked, threads=threads)
        ours = {"model": str(files.dvt), "data": data}
        for kind, quantizer in (("int8", "dovetail-int8"), ("int16", "dovetail-int16")):
            if kind in models:
                _build(getattr(files, kind), task, ours | {"quantizer": quantizer}, threads)
        if "qdq" in models and not files.qdq.exists():
            asked = {"model": str(files.onnx), "output": prepared}
            ask("quantization.preparation:prepare_peer", asked, threads=threads)
            theirs = {"model": prepared, "data": data, "quantizer": "onnxruntime"}
            _build(files.qdq, task, theirs, threads)
        if not {"dynamic", "dynamic_dvt"}.isdisjoint(models):
            theirs = {"model": str(files.onnx), "data": data, "quantizer": "onnxruntime-dynamic"}
            _build(files.dynamic, task, theirs, threads)
        if "dynamic_dvt" in models:
            asked = {"model": str(files.dynamic)}
            _build(files.dynamic_dvt, "preparation:convert", asked, threads)


def _build(path: Path, task: str, asked: Mapping[str, str], threads: int) -> None:
    """Run a process that writes a file; the file gets its name when it is complete."""
    if path.exists():
        return
    part = path.with_name(f"part-{path.name}")
    ask(task, {**asked, "output": str(part)}, threads=threads)
    part.replace(path)


def _files(name: str, folder: Path) -> Files:
    recipe = RECIPES[name]
    made = json.dumps([recipe.module, recipe.maker, dict(recipe.arguments), version("onnx")])
    model = _digest([made, *_stamps(MODEL_SOURCES)])
    converted = _digest([model, *_stamps(CONVERTER_SOURCES)])
    reference = _digest([model, version("onnxruntime")])
    quantizers = list(_stamps(QUANTIZER_SOURCES))
    ours = _digest([converted, *quantizers])
    theirs = _digest([reference, *quantizers])
    return Files(
        onnx=folder / f"{name}-{model}.onnx",
        dvt=folder / f"{name}-{converted}.dvt",
        inputs=folder / f"{name}-{model}.inputs.npz",
        reference=folder / f"{name}-{reference}.reference.npz",
        int8=folder / f"quantized-{name}_{ours}.int8.dvt",
        int16=folder / f"quantized-{name}_{ours}.int16.dvt",
        qdq=folder / f"quantized-{name}_{theirs}.qdq.onnx",
        dynamic=folder / f"quantized-{name}_{theirs}.dynamic.onnx",
        dynamic_dvt=folder / f"quantized-{name}_{_digest([ours, theirs])}.dynamic.dvt",
    )


def _stamps(sources: tuple[Path, ...]) -> Iterator[str]:
    """Yield a line for each Python file in the paths, which changes with the file."""
    for source in sources:
        for path in [source] if source.is_file() else sorted(source.rglob("*.py")):
            status = path.stat()
            yield f"{path.relative_to(ROOT).as_posix()} {status.st_size} {status.st_mtime_ns}"


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
