"""The file that lists adapters: `--adapter-weight-config`, and what lora-importer writes."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from dovetail import typed
from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.files.config_text import read_json, read_yaml


class AdapterUse(msgspec.Struct, frozen=True, kw_only=True):
    """An entry: the files of an adapter for one graph.

    Attributes:
        name: The use case. Entries of several graphs may have one name.
        graph: Name of the graph; None for the only one.
        weights: Path of the .safetensors file.
        encodings: Path of the encodings file.
        weights_only: Whether encodings stay as they are.
        enable_weights_updates: Whether weights are replaced; otherwise only encodings are.
    """

    name: str
    weights: str
    graph: str | None = None
    encodings: str | None = None
    weights_only: bool = False
    enable_weights_updates: bool = True


class AdapterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The file.

    Attributes:
        use_case: The entries; relative paths start at the file's folder.
        share_adapters_between_graphs: Whether the sections of all graphs of a context go into one
            file for each use case.
    """

    use_case: tuple[AdapterUse, ...]
    share_adapters_between_graphs: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The use cases, in order."""
        return tuple(dict.fromkeys(use.name for use in self.use_case))

    def uses(self, name: str, where: str) -> tuple[AdapterUse, ...]:
        """Return the entries of a use case.

        Args:
            name: The use case.
            where: Name of the file, for the error.

        Raises:
            ConfigError: It has none.
        """
        found = tuple(use for use in self.use_case if use.name == name)
        if not found:
            raise ConfigError(
                f"adapter '{name}' not found",
                code="USAGE",
                where=where,
                hint=suggest_name(name, self.names),
            )
        return found


def read_adapter_config(path: str | os.PathLike[str]) -> AdapterConfig:
    """Read a file in YAML or JSON, with paths of its entries made absolute.

    Raises:
        ConfigError: It cannot be read, or has faults; all are listed.
    """
    file = Path(path)
    data = read_json(file) if file.suffix.lower() == ".json" else read_yaml(file)
    config = typed.convert(data, AdapterConfig, where=str(file))
    if problems := _faults(config):
        raise ConfigError("wrong values", where=str(file), problems=problems)
    uses = tuple(_located(use, file.parent) for use in config.use_case)
    return msgspec.structs.replace(config, use_case=uses)


def _faults(config: AdapterConfig) -> list[Problem]:
    found: list[Problem] = []
    seen: set[tuple[str, str | None]] = set()
    if not config.use_case:
        found.append(Problem("expected at least one entry", "$.use_case"))
    for i, use in enumerate(config.use_case):
        where = f"$.use_case[{i}]"
        if (use.name, use.graph) in seen:
            found.append(Problem(f"adapter '{use.name}' occurs twice for one graph", where))
        seen.add((use.name, use.graph))
        if use.weights_only and not use.enable_weights_updates:
            text = "weights_only and enable_weights_updates: false leave nothing to update"
            found.append(Problem(text, where))
        if not use.enable_weights_updates and use.encodings is None:
            text = "enable_weights_updates: false requires encodings"
            found.append(Problem(text, where))
    return found


def _located(use: AdapterUse, folder: Path) -> AdapterUse:
    encodings = None if use.encodings is None else str(folder / use.encodings)
    return msgspec.structs.replace(use, weights=str(folder / use.weights), encodings=encodings)
