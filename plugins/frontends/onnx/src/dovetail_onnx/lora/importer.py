"""The work of `dovetail lora-importer`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dovetail.adapters import (
    Adapter,
    AdapterUse,
    TensorUpdate,
    Updates,
    read_adapter,
    updates_of,
    write_safetensors,
)
from dovetail.adapters.adapter import IN_GRAPH_LAYOUT, SCALED
from dovetail.api import load_model
from dovetail.api.quantization import installed_quantizer
from dovetail.container import Model, hash_source
from dovetail.errors import ConfigError, FrontendError, Problem, suggest_name
from dovetail.files import contained, safe_name, staged_folder
from dovetail.files.config_text import yaml_text
from dovetail.ir import Array, Encoding, Graph, Tensor, TensorKind, dequantize
from dovetail.ops import OpRegistry
from dovetail.plugins.models import model_path
from dovetail.plugins.ops import installed_ops
from dovetail_onnx._proto import read_proto
from dovetail_onnx._tensors import TensorReader
from dovetail_onnx.lora.config import ImporterConfig, ImporterUseCase, read_config

OUTPUT_CONFIG = "lora_output_files.yaml"
ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class Imported:
    """The files that were written.

    Attributes:
        config: The config of adapters.
        use_cases: The number of tensors of each use case.
        notes: What a user should know.
    """

    config: Path
    use_cases: Mapping[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Base:
    """The base model and the ONNX model from which it was converted."""

    model: Model
    ops: OpRegistry
    initializers: Mapping[str, Array]
    keeps_encodings: bool


def import_adapters(base: Path, network: Path, config_path: Path, folder: Path) -> Imported:
    """Write the weights and encodings of each use case in the layouts and types of a base model.

    Args:
        base: The converted base model.
        network: The ONNX model from which it was converted.
        config_path: The use cases.
        folder: The folder to write into.

    Raises:
        ConfigError: The config has faults.
        FrontendError: Weights do not match the base model; every mismatch is listed.
        QuantizationError: Encodings do not match.
        ContainerError: The folder cannot be written; nothing is in it then.
    """
    config = read_config(config_path, ImporterConfig)
    known = _base(base, network)
    notes: list[str] = []
    # a file that is no container, such as a DLC, states itself as the source
    possible = (None, hash_source(network), hash_source(model_path(base)))
    if known.model.producer.source_sha256 not in possible:
        notes.append(f"{base} was converted from another file than {network}")
    with staged_folder(folder) as staging:
        entries: list[_Entry] = []
        for case in config.use_case:
            graphs = _graphs_of(case, known.model, config_path)
            adapter = _adapter(case, known, config_path)
            for graph in graphs:
                target = _target(case, graph, known.model, folder)
                entry = _written(adapter, graph, known, staging.new, target)
                if case.name == ORIGINAL:
                    _check_original(entry.updates.tensors, config_path)
                notes += (f"use case '{case.name}': {note}" for note in entry.updates.notes)
                entries.append(entry)
            if case.quant_overrides is not None and known.keeps_encodings:
                notes.append(
                    f"use case '{case.name}': quant_overrides have no effect: the base model was "
                    "converted with --quant-updatable-mode none"
                )
        names = [Path(OUTPUT_CONFIG), *(name for entry in entries for name in entry.files)]
        if len(set(names)) < len(names):
            raise ConfigError("use cases write the same file", where=str(config_path))
        text = yaml_text({"use_case": [entry.fields for entry in entries]})
        (staging.new / OUTPUT_CONFIG).write_text(text, "utf-8")
        staging.commit(names)
    counts = {entry.fields["name"]: len(entry.updates.tensors) for entry in entries}
    return Imported(folder / OUTPUT_CONFIG, counts, tuple(notes))


@dataclass(frozen=True, slots=True)
class _Entry:
    """A use case of one graph: its entry in the output, its files, and the updates in them."""

    fields: Mapping[str, Any]
    files: tuple[Path, ...]
    updates: Updates


def _written(adapter: Adapter, graph: Graph, base: _Base, folder: Path, target: Path) -> _Entry:
    """Write the files of a use case for one graph."""
    quantizer = installed_quantizer() if _is_quantized([graph]) else None
    updates = updates_of(graph, adapter, base.ops, quantizer)
    fields = {"name": adapter.name, "graph": graph.name, "weights": str(target)}
    files = [target]
    (folder / target).parent.mkdir(parents=True, exist_ok=True)
    _write_weights(folder / target, updates.tensors, adapter)
    present = _encodings(graph, updates.tensors)
    if base.keeps_encodings:
        return _Entry(fields | {"weights_only": True}, (target,), updates)
    if present and quantizer is not None:
        files.append(target.with_suffix(".encodings"))
        quantizer.save_encodings(graph, present, folder / files[-1], base.ops)
        fields["encodings"] = str(files[-1])
    return _Entry(fields, tuple(files), updates)


def _base(base: Path, network: Path) -> _Base:
    model = load_model(base)
    updateable = {
        t.source
        for graph in model.graphs.values()
        for t in graph.tensors.values()
        if t.kind is TensorKind.UPDATEABLE_STATIC
    }
    if not updateable:
        raise FrontendError(
            "the model has no updateable weights",
            where=str(base),
            hint="convert it with --lora-weight-list",
        )
    proto, payloads = read_proto(network)
    reader = TensorReader(network.parent, payloads)
    found = {
        tensor.name: reader.read_initializer(tensor).values
        for tensor in proto.graph.initializer
        if tensor.name in updateable
    }
    # kinds tell the mode: a DLC has them, too, but not the options of the conversion
    kinds = {t.kind for graph in model.graphs.values() for t in graph.tensors.values()}
    keeps = all(kind.is_static for kind in kinds if kind.is_updateable)
    quantized = _is_quantized(model.graphs.values())
    return _Base(model, installed_ops(), found, keeps and quantized)


def _is_quantized(graphs: Iterable[Graph]) -> bool:
    """Return whether updateable tensors of graphs have encodings."""
    tensors = (t for graph in graphs for t in graph.tensors.values())
    return any(t.kind.is_updateable and t.encoding is not None for t in tensors)


def _graphs_of(case: ImporterUseCase, model: Model, path: Path) -> tuple[Graph, ...]:
    """Return the graph that a use case names; without a name all.

    Raises:
        ConfigError: There is no such graph.
    """
    if case.graph is None:
        return tuple(model.graphs.values())
    if case.graph not in model.graphs:
        raise ConfigError(
            f"graph '{case.graph}' not found",
            where=f"{path}: use case '{case.name}'",
            hint=suggest_name(case.graph, model.graphs),
        )
    return (model.graphs[case.graph],)


def _adapter(case: ImporterUseCase, base: _Base, path: Path) -> Adapter:
    """Return the weights of a use case, checked against the ONNX model.

    Raises:
        ConfigError: It has none.
        FrontendError: Names or shapes differ; every mismatch is listed.
    """
    folder = path.parent
    given = case.quant_overrides
    encodings = None if given is None or base.keeps_encodings else folder / given
    if case.lora_weights is None:
        if case.name != ORIGINAL:
            raise ConfigError("missing lora_weights", where=f"{path}: use case '{case.name}'")
        return Adapter(
            case.name, base.initializers, str(path), encodings=encodings, keeps_encodings=True
        )
    weights = str(folder / case.lora_weights)
    adapter = read_adapter(AdapterUse(name=case.name, weights=weights))
    if problems := list(_faults(adapter, base.initializers)):
        raise FrontendError(
            f"the weights of use case '{case.name}' do not match the ONNX model",
            where=weights,
            problems=problems,
        )
    keeps = base.keeps_encodings or (case.name == ORIGINAL and encodings is None)
    return replace(adapter, encodings=encodings, keeps_encodings=keeps)


def _faults(adapter: Adapter, initializers: Mapping[str, Array]) -> Iterator[Problem]:
    for name, values in adapter.arrays.items():
        where = f"tensor '{name}'"
        if name not in initializers:
            yield Problem(
                "not an updateable initializer of the ONNX model",
                where,
                suggest_name(name, initializers),
            )
        elif initializers[name].shape != values.shape:
            yield Problem(f"expected shape {initializers[name].shape}, got {values.shape}", where)


def _check_original(updates: tuple[TensorUpdate, ...], path: Path) -> None:
    """Raise if the use case `original` has other weights than the base model.

    Fixed-point weights may differ by a step: algorithms choose the roundings of the base model.
    """
    problems = []
    for each in updates:
        if each.data is None:
            continue
        old, new = each.tensor.values(), each.data
        same = np.array_equal(old, new, equal_nan=each.tensor.encoding is None)
        if not same and each.tensor.encoding is not None:
            encoding = each.encoding or each.tensor.encoding
            scales, _ = encoding.scales_and_offsets(each.tensor.shape)
            far = dequantize(old, each.tensor.encoding) - dequantize(new, encoding)
            same = bool((np.abs(far) <= 1.01 * scales).all())
        if not same:
            where = f"tensor '{each.tensor.source}'"
            problems.append(Problem("differs from the base model", where))
    if problems:
        raise FrontendError(
            f"the use case '{ORIGINAL}' does not reproduce the base model",
            where=str(path),
            problems=problems,
            hint="pass the ONNX model and the weights of the base model",
        )


def _target(case: ImporterUseCase, graph: Graph, model: Model, folder: Path) -> Path:
    """Return the name of the file of weights, relative to the output folder."""
    root = contained(folder, ".", error=ConfigError)
    target = contained(folder, case.output_path or ".", error=ConfigError).relative_to(root)
    if target.suffix != ".safetensors":
        target = target / f"{safe_name(case.name)}.safetensors"
    if case.graph is None and len(model.graphs) > 1:
        return target.with_name(f"{target.stem}_{safe_name(graph.name)}.safetensors")
    return target


def _write_weights(path: Path, updates: tuple[TensorUpdate, ...], adapter: Adapter) -> None:
    arrays = {u.tensor.name: u.data for u in updates if u.data is not None}
    scaled = [u.tensor.name for u in updates if u.tensor.source in adapter.scaled]
    metadata = {IN_GRAPH_LAYOUT: "true"} | ({SCALED: "\n".join(scaled)} if scaled else {})
    write_safetensors(path, arrays, metadata)


def _encodings(graph: Graph, updates: tuple[TensorUpdate, ...]) -> dict[str, Encoding]:
    """Return the encodings of all updateable tensors with an adapter."""
    new: dict[Tensor, Encoding] = {u.tensor: u.encoding for u in updates if u.encoding is not None}
    found = {}
    for tensor in graph.tensors.values():
        encoding = new.get(tensor, tensor.encoding)
        if tensor.kind.is_updateable and encoding is not None:
            found[tensor.name] = encoding
    return found
