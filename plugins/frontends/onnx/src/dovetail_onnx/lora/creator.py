"""The work of `dovetail lora-model-creator`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto

from dovetail.adapters import write_safetensors
from dovetail.adapters.adapter import SCALED
from dovetail.errors import ConfigError, FrontendError, Problem, suggest_name
from dovetail.files import safe_name, staged_folder
from dovetail.files.config_text import yaml_text
from dovetail.ir import Array
from dovetail_onnx._proto import MAX_BYTES, read_proto
from dovetail_onnx.lora.attach_points import attach_points
from dovetail_onnx.lora.branches import Branch, add_branches, name_clashes
from dovetail_onnx.lora.config import CreatorConfig, UseCase, read_config, read_mapping
from dovetail_onnx.lora.peft import LoraModule, read_peft

IMPORTER_CONFIG, WEIGHT_LIST = "lora_importer_config.yaml", "lora_weight_list.txt"


@dataclass(frozen=True, slots=True)
class Created:
    """The files that were written.

    Attributes:
        model: The ONNX model with branches.
        config: The config of lora-importer.
        weight_list: The names of the branches' weights, for `convert --lora-weight-list`.
        ranks: The rank of the branch of each layer.
        notes: What a user should know.
    """

    model: Path
    config: Path
    weight_list: Path
    ranks: Mapping[str, int]
    notes: tuple[str, ...] = field(default=())


def create_model(
    config_path: Path, folder: Path, network: Path | None = None, initial: str | None = None
) -> Created:
    """Write a model with side branches, and the weights of each use case.

    Args:
        config_path: Adapters and use cases.
        folder: The folder to write into.
        network: The base model; None for the only one that the use cases name.
        initial: The use case whose weights the model contains; None for zeros, with which it
            computes what the base model does.

    Raises:
        ConfigError: The config has faults.
        FrontendError: The model or adapters cannot be read, or do not match; lists every mismatch.
        ContainerError: The folder cannot be written; nothing is in it then.
    """
    config = read_config(config_path, CreatorConfig)
    source = _base(config, config_path) if network is None else network
    chosen = _initial(config, initial)
    adapters = {
        each.name: read_peft(config_path.parent / each.lora_config) for each in config.adapter
    }
    model, payloads = read_proto(source)
    payloads.restore(model)
    branches = _branches(model, source, config, config_path, adapters)
    is_external = onnx.external_data_helper.uses_external_data
    has_external = any(is_external(tensor) for tensor in model.graph.initializer)
    if has_external:
        _load_external(model, source)
    add_branches(model.graph, branches, _weights(chosen, branches, adapters))
    with staged_folder(folder) as staging:
        names = [Path(f"{source.stem}.onnx"), Path(IMPORTER_CONFIG), Path(WEIGHT_LIST)]
        names += _save(model, staging.new / names[0], has_external=has_external)
        scaled = "\n".join(branch.names[1] for branch in branches)
        for case in config.use_case:
            names.append(Path(_file_of(case)))
            weights = _weights(case, branches, adapters)
            write_safetensors(staging.new / names[-1], weights, {SCALED: scaled})
        entries = [_entry(case, names[0], config_path, folder) for case in config.use_case]
        (staging.new / IMPORTER_CONFIG).write_text(yaml_text({"use_case": entries}), "utf-8")
        listed = "".join(f"{name}\n" for branch in branches for name in branch.names)
        (staging.new / WEIGHT_LIST).write_text(listed, "utf-8")
        if len(set(names)) < len(names):
            raise ConfigError(
                "use cases have names that differ only in characters that files cannot have",
                where=str(config_path),
            )
        staging.commit(names)
    notes = tuple(
        f"use case '{case.name}': quant_updatable_tensors has no effect; pass "
        "--quant-updatable-mode to convert"
        for case in config.use_case
        if case.quant_updatable_tensors is not None
    )
    ranks = {branch.point.stem: branch.rank for branch in branches}
    written, listing, weight_list = (folder / name for name in names[:3])
    return Created(written, listing, weight_list, ranks, notes)


def _initial(config: CreatorConfig, name: str | None) -> UseCase:
    """Return the use case whose weights the model contains; one without adapters for none.

    Raises:
        ConfigError: There is no such use case.
    """
    cases = {case.name: case for case in config.use_case}
    if name is not None and name not in cases:
        raise ConfigError(
            f"use case '{name}' not found",
            code="USAGE",
            where="--initial-use-case",
            hint=suggest_name(name, cases),
        )
    return UseCase(name="") if name is None else cases[name]


def _file_of(case: UseCase) -> str:
    return f"{safe_name(case.name)}.safetensors"


def _base(config: CreatorConfig, path: Path) -> Path:
    """Return the base model: that of the use cases without adapters, or the only one.

    Raises:
        ConfigError: There are none, or several.
    """
    plain = {case.model_name for case in config.use_case if not case.adapter_names}
    named = (plain or {case.model_name for case in config.use_case}) - {None}
    if len(named) != 1:
        text = f"the use cases name {len(named)} base models" if named else "no base model"
        raise ConfigError(text, where=str(path), hint="pass it with --input-network")
    return path.parent / str(named.pop())


def _branches(
    model: ModelProto,
    source: Path,
    config: CreatorConfig,
    path: Path,
    adapters: Mapping[str, Mapping[str, LoraModule]],
) -> list[Branch]:
    """Return the branches that the use cases need.

    Raises:
        FrontendError: Adapters do not match the model; every mismatch is listed.
    """
    used = dict.fromkeys(name for case in config.use_case for name in case.adapter_names)
    modules = list(dict.fromkeys(module for name in used for module in adapters[name]))
    named = config.attach_point_onnx_mapping
    mapping = None if named is None else read_mapping(path.parent / named)
    points = attach_points(model.graph, modules, mapping, str(source))
    problems = [
        problem
        for point in points
        for name in used
        if point.module in adapters[name]
        for problem in point.faults(name, adapters[name][point.module])
    ]
    found = []
    for point in points:
        ranks = [
            sum(m.rank for n in case.adapter_names if (m := adapters[n].get(point.module)))
            for case in config.use_case
        ]
        found.append(Branch(point, max(ranks)))
    if not found and not problems:
        problems.append(Problem("no use case has an adapter"))
    clashes = name_clashes(model.graph, found)
    problems += [Problem("the model already has this name", f"'{name}'") for name in clashes]
    if problems:
        raise FrontendError(
            "the adapters do not match the model", where=str(source), problems=problems
        )
    return found


def _weights(
    case: UseCase, branches: list[Branch], adapters: Mapping[str, Mapping[str, LoraModule]]
) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for branch in branches:
        used = (adapters[name].get(branch.point.module) for name in case.adapter_names)
        found |= branch.weights([module for module in used if module is not None])
    return found


def _load_external(model: ModelProto, source: Path) -> None:
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(source.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise FrontendError(
            f"the external data cannot be read: {error}",
            code="MODEL_EXTERNAL_DATA",
            where=str(source),
        ) from error


def _save(model: ModelProto, path: Path, *, has_external: bool) -> list[Path]:
    """Write a model; return the names of additional files."""
    if not has_external and model.ByteSize() <= MAX_BYTES:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return []
    data = f"{path.stem}.data"
    onnx.save_model(model, path, save_as_external_data=True, location=data)
    return [Path(data)]


def _entry(case: UseCase, model: Path, config_path: Path, folder: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": case.name,
        "model_name": str(model),
        "lora_weights": _file_of(case),
    }
    if case.quant_overrides is not None:
        overrides = config_path.parent / case.quant_overrides
        entry["quant_overrides"] = os.path.relpath(overrides, folder)
    return entry | {"output_path": safe_name(case.name)}
