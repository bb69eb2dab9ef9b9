"""The config file of a run: our TOML, or the SDK's outer JSON as it is.

TOML: `[backend.NAME]`, `[context]`, `[[graph]]`, `[profile]`, with the keys that the JSON has under
`context_configs`, `graph_configs` and `profile_configs`.
Source: spec/configs.md, section 1.
"""

from __future__ import annotations

import json
import logging
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from dovetail.errors import ConfigError
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
    """Reads a config file.

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
    for section in (config.context, config.profile, *config.graph):
        _note_without_effect(section, path)
    return config


def _from_sdk(path: Path, backend: str) -> RunConfig:
    data = _json(path)
    sdk = convert(data, _SdkFile, where=str(path))
    inner: dict[str, dict[str, Any]] = {}
    if sdk.backend_extensions.shared_library_path:
        log.info("%s: shared_library_path is noted and ignored: backends are plugins", path)
    if sdk.backend_extensions.config_file_path:
        found = _json(_beside(path, sdk.backend_extensions.config_file_path))
        inner = {backend: found}
    return RunConfig(inner, sdk.context_configs, sdk.graph_configs, sdk.profile_configs)


def _beside(path: Path, name: str) -> Path:
    """Relative to the working directory, as the SDK takes it, then to the file that names it."""
    direct = Path(name)
    return direct if direct.exists() or direct.is_absolute() else path.parent / name


_EFFECTIVE = {"context_priority", "async_execute_queue_depth", "graph_name", "graph_priority"}


def _note_without_effect(section: msgspec.Struct, path: Path) -> None:
    for name, value in msgspec.structs.asdict(section).items():
        if value is not None and name not in _EFFECTIVE:
            log.warning("%s: %s has no effect here", path, name)


def _toml(path: Path) -> dict[str, Any]:
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
