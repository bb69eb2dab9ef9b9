"""Config files of runs: our TOML, or the SDK's outer JSON.

TOML: `[backend.NAME]`, `[device]`, `[context]`, `[[graph]]`, `[profile]`, with the keys that the
JSON has under `context_configs`, `graph_configs` and `profile_configs`, and those of the backend.
`[placement]` has the options of the backend `hetero`; those of its members are in `[backend.NAME]`.
Source: spec/configs.md, section 1.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dovetail.errors import ConfigError, PluginError, Problem, suggest_name
from dovetail.plugins import names
from dovetail.runtime.backend import backend_class
from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig
from dovetail.runtime.contract import Configs, Options
from dovetail.runtime.names import HETERO, members_of, split_order, without_arch
from dovetail.runtime.placement.options import PlacementOptions, options_from, order_of
from dovetail.typed import convert

log = logging.getLogger("dovetail.config")


class ProfileKeys(msgspec.Struct, frozen=True):
    """`[profile]`, the SDK's `profile_configs`."""

    num_max_events: int | None = None


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """One `[[graph]]`.

    Attributes:
        names: Names of the graphs that it is for.
        config: The settings.
    """

    names: tuple[str, ...]
    config: GraphConfig


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Content of a config file, for one backend.

    Attributes:
        options: The backend's options as plain data; typed when the backend is created.
        others: Options of other backends, by name.
        device: Settings of the device.
        context: Settings of the context.
        graphs: Settings of graphs.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    device: DeviceConfig = DeviceConfig()  # noqa: RUF009 - immutable
    context: ContextConfig = ContextConfig()  # noqa: RUF009 - immutable
    graphs: tuple[GraphSettings, ...] = ()

    def graph_config(self, name: str) -> GraphConfig | None:
        """Return the settings of a graph; None if it has none."""
        return next((g.config for g in self.graphs if name in g.names), None)

    def require_graphs(self, known: Iterable[str]) -> None:
        """Raise if settings are for unknown graphs, or a graph has several.

        Raises:
            ConfigError: They do; every such name is listed.
        """
        names, given = set(known), [name for g in self.graphs for name in g.names]
        problems = [
            Problem(f"graph '{name}' not found", hint=suggest_name(name, names))
            for name in given
            if name not in names
        ]
        problems += [
            Problem(f"duplicate settings of graph '{name}'")
            for name in dict.fromkeys(given)
            if given.count(name) > 1
        ]
        if problems:
            raise ConfigError("the config does not match the model", problems=problems)


class _Extensions(msgspec.Struct, frozen=True):
    shared_library_path: str | None = None
    config_file_path: str | None = None


class _AsyncKeys(msgspec.Struct, frozen=True):
    input_tensors_creation_tasks_limit: int | None = None
    execute_enqueue_tasks_limit: int | None = None


@functools.cache
def _file_type(configs: Configs) -> type[msgspec.Struct]:
    """Return the type of a TOML file for a backend."""
    return msgspec.defstruct(
        "File",
        [
            ("backend", dict[str, dict[str, Any]], {}),
            ("placement", PlacementOptions | None, None),
            ("device", configs.device, configs.device()),
            ("context", configs.context, configs.context()),
            ("graph", list[_graph_type(configs)], []),  # type: ignore[misc] # made at run time
            ("profile", ProfileKeys, ProfileKeys()),
        ],
        frozen=True,
    )


@functools.cache
def _sdk_file_type(configs: Configs) -> type[msgspec.Struct]:
    """Return the type of a file in the SDK's outer form."""
    return msgspec.defstruct(
        "SdkFile",
        [
            ("backend_extensions", _Extensions, _Extensions()),
            ("context_configs", configs.context, configs.context()),
            ("graph_configs", list[_graph_type(configs)], []),  # type: ignore[misc] # as above
            ("profile_configs", ProfileKeys, ProfileKeys()),
            ("async_graph_execution_config", _AsyncKeys, _AsyncKeys()),
        ],
        frozen=True,
    )


@functools.cache
def _graph_type(configs: Configs) -> type[msgspec.Struct]:
    """Return the type of one `[[graph]]`: the backend's settings, and the graphs they are for."""
    names = [("graph_name", str, ""), ("graph_names", list[str], [])]
    return msgspec.defstruct("GraphTable", names, bases=(configs.graph,), frozen=True)


def load_config(path: str | Path, backend: str) -> RunConfig:
    """Read a config file.

    Args:
        path: A `.toml` file, or a `.json` file in the SDK's outer form.
        backend: Name of the backend that runs; an SDK file's inner config is for it, or for the
            first member of `hetero:a,b`.

    Raises:
        ConfigError: The file cannot be read, or has faults (see `config_from`).
    """
    path = Path(path)
    if path.suffix.lower() == ".toml":
        return config_from(_toml(path), backend, str(path))
    return _from_sdk(path, backend)


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
    faults, configs = _Faults(where), _configs_of(backend)
    file = faults.convert(data, _file_type(configs))
    sections = data.get("backend")
    options = sections if isinstance(sections, Mapping) else {}
    for name in options:
        faults.check_installed(name, backend)
    placement = file.placement or PlacementOptions()
    is_hetero = split_order(backend)[0] == HETERO
    used = (order_of(backend, placement) or ()) if is_hetero else (backend,)
    for name in used:
        own = configs if name == backend else _configs_of(name)
        faults.check_options(options.get(name), own, where, f"$.backend.{name}")
    graphs = faults.graphs(file.graph, configs, "$.graph")
    faults.raise_all()
    if file.placement is not None and not is_hetero:
        log.warning("%s: [placement] is not used by '%s'", where, backend)
    others = {name: own for name, own in file.backend.items() if name not in used}
    for name in others:
        log.warning("%s: the options of backend '%s' are not used by '%s'", where, name, backend)
    _note_without_effect((file.context, file.profile, *(g.config for g in graphs)), where)
    given = file.backend.get(backend, {})
    if is_hetero:
        given = options_from(backend, placement, file.backend)
    return RunConfig(given, others, file.device, file.context, graphs)


def _configs_of(backend: str) -> Configs:
    """Return the types of a backend's configs; core's for a backend that cannot be loaded."""
    try:
        return backend_class(backend).configs
    except PluginError:  # raised again when the backend is created
        return Configs()


def _from_sdk(path: Path, backend: str) -> RunConfig:
    backend = without_arch(backend)
    data, faults, configs = _json(path), _Faults(str(path)), _configs_of(backend)
    sdk = faults.convert(data, _sdk_file_type(configs))
    extensions = data.get("backend_extensions")
    named = extensions if isinstance(extensions, Mapping) else {}
    library, options = named.get("shared_library_path"), named.get("config_file_path")
    inner: dict[str, Any] = {}
    members = members_of(backend) or (backend,)
    meant = (_backend_of(library) if isinstance(library, str) else None) or members[0]
    if isinstance(options, str) and options and meant in members:
        file = _beside(path, options)
        inner = _json(file)
        faults.check_options(inner, _configs_of(meant), str(file), "$")
        if meant != backend:
            inner = options_from(backend, PlacementOptions(), {meant: inner})
    graphs = faults.graphs(sdk.graph_configs, configs, "$.graph_configs")
    faults.raise_all()
    if options and meant not in members:
        log.warning(
            "%s: %s is for backend '%s', not '%s'; it is not used", path, options, meant, backend
        )
    parts = (sdk.context_configs, sdk.profile_configs, sdk.async_graph_execution_config)
    _note_without_effect((*parts, *(g.config for g in graphs)), str(path))
    return RunConfig(inner, {}, configs.device(), sdk.context_configs, graphs)


class _Faults:
    """Collects the faults of a config, so that one error lists all of them.

    Args:
        where: Name of the file.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._errors: list[ConfigError] = []

    def convert(self, data: Mapping[str, Any], to: type[msgspec.Struct]) -> Any:
        """Return data as a Struct; the Struct's defaults if the data have faults."""
        try:
            return convert(dict(data), to, where=self._where)
        except ConfigError as error:
            self._errors.append(error)
            return to()

    def check_installed(self, name: str, backend: str) -> None:
        """Record a fault if options are for a backend that is not installed."""
        installed = {*names("dovetail.backends"), split_order(backend)[0]} - {HETERO}
        if name == HETERO:
            error = ConfigError(
                f"the options of backend '{name}' are in [placement]",
                where=f"{self._where}: $.backend.{name}",
                hint="and those of its members in [backend.NAME]",
            )
            self._errors.append(error)
        elif name not in installed:
            error = ConfigError(
                f"options of a backend '{name}', which is not installed",
                where=f"{self._where}: $.backend.{name}",
                hint=suggest_name(name, installed),
            )
            self._errors.append(error)

    def check_options(self, options: object, configs: Configs, where: str, path: str) -> None:
        """Record the faults in the options of the backend that runs."""
        if isinstance(options, Mapping) and configs.backend is not Options:
            try:
                convert(dict(options), configs.backend, where=where, path=path)
            except ConfigError as error:
                self._errors.append(error)

    def graphs(
        self, tables: Sequence[Any], configs: Configs, path: str
    ) -> tuple[GraphSettings, ...]:
        """Return the settings of graphs; record those for no graph."""
        found = []
        for i, table in enumerate(tables):
            names = (*filter(None, (table.graph_name,)), *table.graph_names)
            if not names:
                where = f"{self._where}: {path}[{i}]"
                hint = "add graph_name or graph_names"
                self._errors.append(ConfigError("settings of no graph", where=where, hint=hint))
            own = configs.graph.__struct_fields__
            config = configs.graph(**{name: getattr(table, name) for name in own})
            found.append(GraphSettings(names, config))
        return tuple(found)

    def raise_all(self) -> None:
        """Raise one error for all faults; do nothing if there are none.

        Raises:
            ConfigError: There are faults.
        """
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            codes = {error.code for error in self._errors}
            raise ConfigError(
                "the config has several faults",
                code=codes.pop() if len(codes) == 1 else None,
                where=self._where,
                problems=[p for error in self._errors for p in self._problems_of(error)],
            )

    def _problems_of(self, error: ConfigError) -> Iterable[Problem]:
        prefix = f"{self._where}: "
        if not error.problems:
            return (Problem(error.message, error.where.removeprefix(prefix), error.hint),)
        if error.where == self._where:
            return error.problems
        return (Problem(p.message, f"{error.where}: {p.where}", p.hint) for p in error.problems)


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


_EFFECTIVE = {"context_priority", "async_execute_queue_depth", "graph_priority"}


def _note_without_effect(sections: Iterable[msgspec.Struct], where: str) -> None:
    """Log a warning for each setting of core's that has no effect yet."""
    for section in sections:
        _note_section(section, where)


def _note_section(section: msgspec.Struct, where: str) -> None:
    for kind in (ContextConfig, GraphConfig, ProfileKeys, _AsyncKeys):
        for name in kind.__struct_fields__ if isinstance(section, kind) else ():
            if name not in _EFFECTIVE and getattr(section, name) is not None:
                log.warning("%s: %s has no effect here", where, name)


# Errors of both parsers: bad syntax, integers of thousands of digits, and nesting that is too deep.
_UNPARSABLE = (ValueError, RecursionError)


def _toml(path: Path) -> dict[str, Any]:
    import tomllib  # imported here: most sessions have no config file

    try:
        return tomllib.loads(_text(path))
    except _UNPARSABLE as error:
        raise _malformed(path, "TOML", str(error)) from error


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_text(path))
    except _UNPARSABLE as error:
        raise _malformed(path, "JSON", str(error)) from error
    if not isinstance(data, dict):
        raise _malformed(path, "JSON", "expected an object")
    return data


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = "the name is not a path"  # NUL, or half a surrogate pair
        if isinstance(error, UnicodeDecodeError):
            reason = "not UTF-8 text"
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot read the config file: {reason}", code="CONFIG_UNREADABLE", where=str(path)
        ) from error


def _malformed(path: Path, form: str, reason: str) -> ConfigError:
    line = re.search(r"line (\d+)", reason)
    place = f"{path}:{line[1]}" if line else str(path)
    return ConfigError(f"not valid {form}: {reason}", code="CONFIG_UNREADABLE", where=place)
