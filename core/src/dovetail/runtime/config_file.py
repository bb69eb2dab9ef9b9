"""Config files of runs: our TOML, or the SDK's outer JSON.

TOML: `[backend.NAME]`, `[context]`, `[[graph]]`, `[profile]`, with the keys that the JSON has under
`context_configs`, `graph_configs` and `profile_configs`.
Source: spec/configs.md, section 1.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dovetail.errors import ConfigError, PluginError, Problem, suggest_name
from dovetail.plugins import names
from dovetail.runtime.backend import backend_class
from dovetail.runtime.config import ContextConfig, GraphConfig, QueueDepth
from dovetail.typed import convert

log = logging.getLogger("dovetail.config")
S = TypeVar("S", bound=msgspec.Struct)


class ContextKeys(msgspec.Struct, frozen=True):
    """`[context]`, the SDK's `context_configs`."""

    context_priority: str = "normal"
    async_execute_queue_depth: QueueDepth = 10
    enable_graphs: list[str] | None = None
    memory_limit_hint: int | None = None
    is_persistent_binary: bool | None = None
    cache_compatibility_mode: str | None = None


class GraphKeys(msgspec.Struct, frozen=True):
    """One `[[graph]]`, the SDK's `graph_configs[]`."""

    graph_name: str
    graph_priority: str | None = None
    graph_profiling_start_delay: float | None = None
    graph_profiling_num_executions: int | None = None


class ProfileKeys(msgspec.Struct, frozen=True):
    """`[profile]`, the SDK's `profile_configs`."""

    num_max_events: int | None = None


class RunConfig(msgspec.Struct, frozen=True):
    """Content of a config file.

    Attributes:
        backend: Options by backend name; typed when the backend is created.
        context: Settings of the context.
        graph: Settings of graphs, by `graph_name`.
        profile: Settings of profiles.
    """

    backend: dict[str, dict[str, Any]] = {}
    context: ContextKeys = ContextKeys()
    graph: list[GraphKeys] = []
    profile: ProfileKeys = ProfileKeys()

    @property
    def context_config(self) -> ContextConfig:
        """The settings of the context that the runtime supports."""
        return ContextConfig(self.context.context_priority, self.context.async_execute_queue_depth)

    def require_graphs(self, known: Iterable[str]) -> None:
        """Raise if settings are for unknown graphs, or a graph has several.

        Raises:
            ConfigError: They do; every such name is listed.
        """
        names, given = set(known), [g.graph_name for g in self.graph]
        problems = [
            Problem(f"graph '{name}' not found", hint=suggest_name(name, names))
            for name in given
            if name not in names
        ]
        problems += [
            Problem(f"duplicate settings of graph '{name}'")
            for name in set(given)
            if given.count(name) > 1
        ]
        if problems:
            raise ConfigError("the config does not match the model", problems=problems)

    def graph_config(self, name: str) -> GraphConfig:
        """Return the settings of a graph that the runtime supports."""
        found = [g for g in self.graph if g.graph_name == name]
        return GraphConfig(found[0].graph_priority) if found else GraphConfig()


class _Extensions(msgspec.Struct, frozen=True):
    shared_library_path: str | None = None
    config_file_path: str | None = None


class _AsyncKeys(msgspec.Struct, frozen=True):
    input_tensors_creation_tasks_limit: int | None = None
    execute_enqueue_tasks_limit: int | None = None


class _SdkFile(msgspec.Struct, frozen=True):
    backend_extensions: _Extensions = _Extensions()
    context_configs: ContextKeys = ContextKeys()
    graph_configs: list[GraphKeys] = []
    profile_configs: ProfileKeys = ProfileKeys()
    async_graph_execution_config: _AsyncKeys = _AsyncKeys()


def load_config(path: str | Path, backend: str) -> RunConfig:
    """Read a config file.

    Args:
        path: A `.toml` file, or a `.json` file in the SDK's outer form.
        backend: Name of the backend that runs; an SDK file's inner config is for it.

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
            installed. The options of `backend` are checked too. Every fault is listed.
    """
    faults = _Faults(where)
    config = faults.convert(data, RunConfig)
    sections = data.get("backend")
    if isinstance(sections, Mapping):
        for name in sections:
            faults.check_installed(name, backend)
        faults.check_options(sections.get(backend), backend, where, f"$.backend.{backend}")
    faults.raise_all()
    _note_without_effect(config, backend, where)
    return config


def _from_sdk(path: Path, backend: str) -> RunConfig:
    data, faults = _json(path), _Faults(str(path))
    sdk = faults.convert(data, _SdkFile)
    extensions = data.get("backend_extensions")
    named = extensions if isinstance(extensions, Mapping) else {}
    library, options = named.get("shared_library_path"), named.get("config_file_path")
    inner: dict[str, dict[str, Any]] = {}
    meant = (_backend_of(library) if isinstance(library, str) else None) or backend
    if isinstance(options, str) and options and meant == backend:
        file = _beside(path, options)
        inner = {backend: _json(file)}
        faults.check_options(inner[backend], backend, str(file), "$")
    faults.raise_all()
    if options and meant != backend:
        log.warning(
            "%s: %s is for backend '%s', not '%s'; it is not used", path, options, meant, backend
        )
    _note_section(sdk.async_graph_execution_config, str(path))
    config = RunConfig(inner, sdk.context_configs, sdk.graph_configs, sdk.profile_configs)
    _note_without_effect(config, backend, str(path))
    return config


class _Faults:
    """Collects the faults of a config, so that one error lists all of them.

    Args:
        where: Name of the file.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._errors: list[ConfigError] = []

    def convert(self, data: Mapping[str, Any], to: type[S]) -> S:
        """Return data as a Struct; the Struct's defaults if the data have faults."""
        try:
            return convert(dict(data), to, where=self._where)
        except ConfigError as error:
            self._errors.append(error)
            return to()

    def check_installed(self, name: str, backend: str) -> None:
        """Record a fault if options are for a backend that is not installed."""
        installed = {*names("dovetail.backends"), backend}
        if name not in installed:
            error = ConfigError(
                f"options of a backend '{name}', which is not installed",
                where=f"{self._where}: $.backend.{name}",
                hint=suggest_name(name, installed),
            )
            self._errors.append(error)

    def check_options(self, options: object, backend: str, where: str, path: str) -> None:
        """Record the faults in the options of the backend that runs, if it can be loaded."""
        if not isinstance(options, Mapping):
            return
        try:
            convert(dict(options), backend_class(backend).configs.backend, where=where, path=path)
        except ConfigError as error:
            self._errors.append(error)
        except PluginError:  # raised again when the backend is created
            return

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


_EFFECTIVE = {"context_priority", "async_execute_queue_depth", "graph_name", "graph_priority"}


def _note_without_effect(config: RunConfig, backend: str, where: str) -> None:
    """Log a warning for each part of a config that has no effect on `backend`."""
    for name in config.backend:
        if name != backend:
            log.warning(
                "%s: the options of backend '%s' are not used by '%s'", where, name, backend
            )
    for section in (config.context, config.profile, *config.graph):
        _note_section(section, where)


def _note_section(section: msgspec.Struct, where: str) -> None:
    for name, value in msgspec.structs.asdict(section).items():
        if value is not None and name not in _EFFECTIVE:
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
