"""The YAML files of both commands: adapters and use cases, and use cases with their weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dovetail import typed
from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.files.config_text import read_json, read_yaml


class AdapterEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter.

    Attributes:
        name: Its name in use cases.
        lora_config: Path of its adapter_config.json; adapter_model.safetensors is next to it.
    """

    name: str
    lora_config: str


class UseCase(msgspec.Struct, frozen=True, kw_only=True):
    """Adapters that are used together.

    Attributes:
        name: Its name.
        adapter_names: The adapters; none for the base model.
        model_name: Path of the base model.
        quant_overrides: Path of an encodings file.
        quant_updatable_tensors: Path of a list of tensors whose encodings differ.
    """

    name: str
    adapter_names: tuple[str, ...] = ()
    model_name: str | None = None
    quant_overrides: str | None = None
    quant_updatable_tensors: str | None = None


class CreatorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The input of lora-model-creator.

    Attributes:
        adapter: The adapters.
        use_case: The use cases.
        attach_point_onnx_mapping: Path of a JSON object with the names of ONNX nodes of each
            module; None if the nodes have the names of the modules.
    """

    adapter: tuple[AdapterEntry, ...]
    use_case: tuple[UseCase, ...] = msgspec.field(name="use-case")
    attach_point_onnx_mapping: str | None = None


class ImporterUseCase(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of a use case.

    Attributes:
        name: Its name.
        lora_weights: Path of a .safetensors file; None, for the use case `original` only, for the
            weights of the ONNX model.
        model_name: Path of the ONNX model.
        graph: Name of the graph of the base model; None for all graphs.
        quant_overrides: Path of an encodings file.
        output_path: Folder or .safetensors file to write, in the output folder.
    """

    name: str
    lora_weights: str | None = None
    model_name: str | None = None
    graph: str | None = None
    quant_overrides: str | None = None
    output_path: str | None = None


class ImporterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The input of lora-importer, which lora-model-creator writes.

    Attributes:
        use_case: The use cases.
    """

    use_case: tuple[ImporterUseCase, ...]


_Config = TypeVar("_Config", CreatorConfig, ImporterConfig)


def read_config(path: Path, to: type[_Config]) -> _Config:
    """Read a config in YAML or JSON.

    Raises:
        ConfigError: It cannot be read, or has faults; all are listed.
    """
    data = read_json(path) if path.suffix.lower() == ".json" else read_yaml(path)
    config = typed.convert(data, to, where=str(path))
    problems = _repeated("use case", [case.name for case in config.use_case])
    if isinstance(config, CreatorConfig):
        problems += _creator_faults(config)
    if not config.use_case:
        problems.append(Problem("expected at least one use case"))
    if problems:
        raise ConfigError("wrong values", where=str(path), problems=problems)
    return config


def read_mapping(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the names of ONNX nodes of each module.

    Raises:
        ConfigError: The file cannot be read, or has faults.
    """
    data: dict[str, Any] = read_json(path)
    found = typed.convert(data, dict[str, str | tuple[str, ...]], where=str(path))
    return {name: (nodes,) if isinstance(nodes, str) else nodes for name, nodes in found.items()}


def _creator_faults(config: CreatorConfig) -> list[Problem]:
    names = [adapter.name for adapter in config.adapter]
    found = _repeated("adapter", names)
    for i, case in enumerate(config.use_case):
        where = f"$.use-case[{i}]"
        found += [
            Problem(f"adapter '{n}' not found", f"{where}.adapter_names", suggest_name(n, names))
            for n in case.adapter_names
            if n not in names
        ]
        found += _repeated("adapter", case.adapter_names, f"{where}.adapter_names")
    return found


def _repeated(what: str, names: list[str] | tuple[str, ...], where: str = "") -> list[Problem]:
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    return [Problem(f"{what} '{name}' occurs {names.count(name)} times", where) for name in twice]
