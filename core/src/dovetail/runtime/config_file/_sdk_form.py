"""The SDK's outer JSON, and a backend's own file that it names.

Source: spec/configs.md, section 1.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dovetail.files.config_text import read_json
from dovetail.runtime.config import changed_settings
from dovetail.runtime.config_file._composite import Composite
from dovetail.runtime.config_file._faults import Faults
from dovetail.runtime.config_file._run_config import (
    GraphSettings,
    OverlapConfig,
    ProfileConfig,
    RunConfig,
    joined,
    joined_graphs,
)
from dovetail.runtime.config_file._tables import (
    configs_of,
    graph_type,
    log,
    note_without_effect,
)
from dovetail.runtime.contract import Configs
from dovetail.runtime.names import members_of, without_arch
from dovetail.typed import convert


class _Extensions(msgspec.Struct, frozen=True):
    shared_library_path: str | None = None
    config_file_path: str | None = None


@functools.cache
def _file_type(configs: Configs) -> type[msgspec.Struct]:
    """Return the type of a file in the SDK's outer form."""
    return msgspec.defstruct(
        "SdkFile",
        [
            ("backend_extensions", _Extensions, _Extensions()),
            ("context_configs", configs.context, configs.context()),
            ("graph_configs", list[graph_type(configs)], []),  # type: ignore[misc] # made at run time
            ("profile_configs", ProfileConfig, ProfileConfig()),
            ("async_graph_execution_config", OverlapConfig, OverlapConfig()),
        ],
        frozen=True,
    )


def config_from_sdk(data: Mapping[str, Any], path: Path, backend: str) -> RunConfig:
    """Decode a config in the SDK's form; log a warning for settings without effect.

    Args:
        data: Content of the file: the outer form, or a backend's own.
        path: The file.
        backend: Name of the backend that runs.

    Raises:
        ConfigError: As `config_from`; the faults of the backend's own file are among those listed.
    """
    backend = without_arch(backend)
    faults, configs = Faults(str(path)), configs_of(backend)
    if configs.sdk is not None and _known(configs.sdk, data) > _known(_file_type(configs), data):
        data = {"backend_extensions": {"config_file_path": str(path.absolute())}}  # its own file
    sdk: Any = faults.convert(data, _file_type(configs))
    options = sdk.backend_extensions.config_file_path
    members = members_of(backend) or (backend,)
    meant = _backend_of(sdk.backend_extensions.shared_library_path) or members[0]
    inner = RunConfig()
    if options and meant in members:
        inner = _inner(_beside(path, options), configs_of(meant), faults)
        if meant != backend:
            inner = _of_member(inner, meant, backend, configs)
    graphs = faults.graphs(sdk.graph_configs, configs, "$.graph_configs")
    faults.raise_all()
    if options and meant not in members:
        log.warning(
            "%s: %s is for backend '%s', not '%s'; it is not used", path, options, meant, backend
        )
    note_without_effect(data, _file_type(configs), str(path))
    return RunConfig(
        inner.options,
        {},
        joined(configs.device(), inner.device),
        joined(sdk.context_configs, inner.context),
        joined_graphs(graphs, inner.graphs),
        sdk.profile_configs,
        sdk.async_graph_execution_config,
    )


def _inner(file: Path, configs: Configs, faults: Faults) -> RunConfig:
    """Return the content of a backend's own file, and record its faults."""
    data, where = faults.read(read_json, file), str(file)
    if data is None:
        return RunConfig()
    if configs.sdk is None:
        faults.check_options(data, configs, where, "$")
        return RunConfig(data)
    found = faults.convert(data, configs.sdk, where)
    if faults.is_empty:
        note_without_effect(data, configs.sdk, where, found.without_effect())
    graphs = tuple(GraphSettings(tuple(names), own) for names, own in found.graphs())
    for i, settings in enumerate(graphs):
        faults.check_names(settings.names, f"{where}: $.graphs[{i}]")
    return RunConfig(found.options(), {}, found.device(), found.context(), graphs)


def _backend_of(library: str | None) -> str | None:
    """Return the backend of an extensions library of the SDK, from its name."""
    found = re.search(r"Qnn([A-Z][a-z]+)\w*NetRunExtensions", library or "")
    return found[1].lower() if found else None


def _beside(path: Path, name: str) -> Path:
    """Resolve a path against the working directory, as the SDK does, else the file's folder."""
    direct = Path(name)
    # os.path's `exists`, since pathlib's raises for text that is no path
    is_found = os.path.exists(direct) or direct.is_absolute()
    return direct if is_found else path.parent / name


def _known(struct: type[msgspec.Struct], data: Mapping[str, Any]) -> int:
    """Return how many keys of some data a Struct has."""
    return len(data.keys() & {field.encode_name for field in msgspec.structs.fields(struct)})


def _of_member(inner: RunConfig, name: str, backend: str, configs: Configs) -> RunConfig:
    """Return the content of a member's own file as settings of `hetero` or `auto`."""

    def of_member(own: msgspec.Struct) -> dict[str, Any]:
        return {"members": {name: changed_settings(own)}}

    return RunConfig(
        Composite(backend).options({name: inner.options}),
        {},
        convert(of_member(inner.device), configs.device, where=name),
        convert(of_member(inner.context), configs.context, where=name),
        tuple(
            GraphSettings(g.names, convert(of_member(g.config), configs.graph, where=name))
            for g in inner.graphs
        ),
    )
