"""Our own form of a config: the content of a TOML file, or a mapping of the same form."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.runtime.config_file._composite import TABLES, Composite, file_fields
from dovetail.runtime.config_file._faults import Faults
from dovetail.runtime.config_file._run_config import OverlapConfig, ProfileConfig, RunConfig
from dovetail.runtime.config_file._tables import (
    configs_of,
    graph_type,
    log,
    note_without_effect,
)
from dovetail.runtime.contract import Configs
from dovetail.runtime.names import without_arch


@functools.cache
def _file_type(configs: Configs) -> type[msgspec.Struct]:
    """Return the type of a file for a backend."""
    return msgspec.defstruct(
        "File",
        [
            ("backend", dict[str, dict[str, Any]], {}),
            *file_fields(),
            ("device", configs.device, configs.device()),
            ("context", configs.context, configs.context()),
            ("graph", list[graph_type(configs)], []),  # type: ignore[misc] # made at run time
            ("profile", ProfileConfig, ProfileConfig()),
            ("async_graph_execution", OverlapConfig, OverlapConfig()),
        ],
        frozen=True,
    )


def config_from(data: Mapping[str, Any], backend: str, where: str) -> RunConfig:
    """Decode a config from data in the form of our TOML; log a warning for settings without effect.

    Args:
        data: The data.
        backend: Name of the backend that runs.
        where: Name of the file, for errors.

    Raises:
        ConfigError: The data have unknown keys, wrong types, or options of a backend that is not
            installed. The options of `backend`, or of its members, are checked too. Every fault is
            listed.
    """
    backend = without_arch(backend)
    faults, configs = Faults(where), configs_of(backend)
    file: Any = faults.convert(data, _file_type(configs))
    sections = data.get("backend")
    for name in sections if isinstance(sections, Mapping) else ():
        faults.check_installed(name, backend)
    composite = Composite.of(backend)
    used = (backend,) if composite is None else composite.members(file)
    for name in used:
        own = configs if name == backend else configs_of(name)
        faults.check_options(file.backend.get(name, {}), own, where, f"$.backend.{name}")
        if composite is not None:
            faults.check_member(file, name, own)
    graphs = faults.graphs(file.graph, configs, "$.graph")
    faults.raise_all()
    for owner, table in TABLES.items():
        if getattr(file, table) is not None and (composite is None or composite.name != owner):
            log.warning(
                "%s: [%s] is not used by '%s', but by the backend %s", where, table, backend, owner
            )
    others = {name: own for name, own in file.backend.items() if name not in used}
    for name in others:
        log.warning("%s: the options of backend '%s' are not used by '%s'", where, name, backend)
    note_without_effect(data, _file_type(configs), where)
    given = file.backend.get(backend, {})
    if composite is not None:
        given = composite.options(file.backend, file)
    return RunConfig(
        given,
        others,
        file.device,
        file.context,
        graphs,
        file.profile,
        file.async_graph_execution,
    )
