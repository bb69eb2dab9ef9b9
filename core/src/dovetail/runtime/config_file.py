"""The config file of a run: our TOML, or the SDK's outer JSON as it is.

TOML: `[backend.NAME]`, `[context]`, `[[graph]]`, `[profile]`, with the keys that the JSON has under
`context_configs`, `graph_configs` and `profile_configs`.
Source: spec/configs.md, section 1.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.plugins import names
from dovetail.runtime.config import ContextConfig, GraphConfig, QueueDepth
from dovetail.typed import convert

log = logging.getLogger("dovetail.config")


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
    """What a config file says.

    Attributes:
        backend: Options by backend name, typed when the backend is made.
        context: Of the context.
        graph: Of graphs, by `graph_name`.
        profile: Of profiles.
    """

    backend: dict[str, dict[str, Any]] = {}
    context: ContextKeys = ContextKeys()
    graph: list[GraphKeys] = []
    profile: ProfileKeys = ProfileKeys()

    @property
    def context_config(self) -> ContextConfig:
        """The part that the runtime takes."""
        return ContextConfig(self.context.context_priority, self.context.async_execute_queue_depth)

    def require_graphs(self, known: Iterable[str]) -> None:
        """Refuses settings for graphs that are not there, or twice for one.

        Raises:
            ConfigError: Every such name is listed.
        """
        names, given = set(known), [g.graph_name for g in self.graph]
        problems = [
            Problem(f"there is no graph '{name}'", hint=suggest_name(name, names))
            for name in given
            if name not in names
        ]
        problems += [
            Problem(f"graph '{name}' is set twice") for name in set(given) if given.count(name) > 1
        ]
        if problems:
            raise ConfigError("the config does not fit the model", problems=problems)

    def graph_config(self, name: str) -> GraphConfig:
        """The part of one graph that the runtime takes."""
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
        path: `.toml`, or `.json` in the SDK's outer form.
        backend: Name of the backend that an SDK file's inner config is for.

    Raises:
        ConfigError: The file cannot be read, has unknown keys (all are listed) or wrong types.
    """
    path = Path(path)
    if path.suffix.lower() == ".toml":
        config = convert(_toml(path), RunConfig, where=str(path))
    else:
        config = _from_sdk(path, backend)
    return checked(config, backend, str(path))


def checked(config: RunConfig, backend: str, where: str) -> RunConfig:
    """Return a config, with a warning for each part of it that has no effect on `backend`.

    Raises:
        ConfigError: It has options of a backend that is not installed.
    """
    installed = {*names("dovetail.backends"), backend}
    for name in config.backend:
        if name not in installed:
            raise ConfigError(
                f"there are options of a backend '{name}', which is not installed",
                where=f"{where}: backend.{name}",
                hint=suggest_name(name, installed),
            )
        if name != backend:
            log.warning(
                "%s: the options of backend '%s' are not used by '%s'", where, name, backend
            )
    for section in (config.context, config.profile, *config.graph):
        _note_without_effect(section, where)
    return config


def _from_sdk(path: Path, backend: str) -> RunConfig:
    data = _json(path)
    sdk = convert(data, _SdkFile, where=str(path))
    inner: dict[str, dict[str, Any]] = {}
    _note_without_effect(sdk.async_graph_execution_config, str(path))
    library, options = (
        sdk.backend_extensions.shared_library_path,
        sdk.backend_extensions.config_file_path,
    )
    meant = _backend_of(library) or backend
    if options and meant == backend:
        inner = {backend: _json(_beside(path, options))}
    elif options:
        log.warning("%s: %s is for backend '%s', not '%s': not used", path, options, meant, backend)
    return RunConfig(inner, sdk.context_configs, sdk.graph_configs, sdk.profile_configs)


def _backend_of(library: str | None) -> str | None:
    """The backend that an extensions library of the SDK belongs to, as its name says."""
    found = re.search(r"Qnn([A-Z][a-z]+)\w*NetRunExtensions", library or "")
    return found[1].lower() if found else None


def _beside(path: Path, name: str) -> Path:
    """Relative to the working directory, as the SDK takes it, then to the file that names it."""
    direct = Path(name)
    return direct if direct.exists() or direct.is_absolute() else path.parent / name


_EFFECTIVE = {"context_priority", "async_execute_queue_depth", "graph_name", "graph_priority"}


def _note_without_effect(section: msgspec.Struct, where: str) -> None:
    for name, value in msgspec.structs.asdict(section).items():
        if value is not None and name not in _EFFECTIVE:
            log.warning("%s: %s has no effect here", where, name)


def _toml(path: Path) -> dict[str, Any]:
    import tomllib  # imported here: most sessions have no config file

    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise _malformed(path, "TOML", str(error)) from error


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise _malformed(path, "JSON", str(error)) from error
    if not isinstance(data, dict):
        raise _malformed(path, "JSON", "it is not an object")
    return data


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            f"the config file cannot be read: {reason}", code="CONFIG_UNREADABLE", where=str(path)
        ) from error


def _malformed(path: Path, form: str, reason: str) -> ConfigError:
    line = re.search(r"line (\d+)", reason)
    place = f"{path}:{line[1]}" if line else str(path)
    return ConfigError(f"not valid {form}: {reason}", code="CONFIG_UNREADABLE", where=place)
