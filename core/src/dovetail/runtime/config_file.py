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
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from dovetail.errors import ConfigError, PluginError, Problem, suggest_name
from dovetail.plugins import names
from dovetail.runtime.backend import backend_class
from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig
from dovetail.runtime.contract import Configs, Options
from dovetail.runtime.names import HETERO, members_of, split_order, without_arch
from dovetail.runtime.placement.options import PlacementOptions, options_from, order_of
from dovetail.typed import NO_EFFECT, convert, keys_without_effect

log = logging.getLogger("dovetail.config")
C = TypeVar("C", bound=msgspec.Struct)


class ProfileKeys(msgspec.Struct, frozen=True):
    """`[profile]`, the SDK's `profile_configs`."""

    num_max_events: Annotated[int | None, NO_EFFECT] = None


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
    input_tensors_creation_tasks_limit: Annotated[int | None, NO_EFFECT] = None
    execute_enqueue_tasks_limit: Annotated[int | None, NO_EFFECT] = None


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
    _note_without_effect(data, _file_type(configs), where)
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
    if configs.sdk is not None and data.keys() and _has_all(configs.sdk, data):
        data = {"backend_extensions": {"config_file_path": str(path.absolute())}}  # its own file
    sdk = faults.convert(data, _sdk_file_type(configs))
    extensions = data.get("backend_extensions")
    named = extensions if isinstance(extensions, Mapping) else {}
    library, options = named.get("shared_library_path"), named.get("config_file_path")
    members = members_of(backend) or (backend,)
    meant = (_backend_of(library) if isinstance(library, str) else None) or members[0]
    inner = RunConfig()
    if isinstance(options, str) and options and meant in members:
        inner = faults.inner(_beside(path, options), _configs_of(meant))
        if meant != backend:
            inner = _of_member(inner, meant, backend, configs)
    graphs = faults.graphs(sdk.graph_configs, configs, "$.graph_configs")
    faults.raise_all()
    if options and meant not in members:
        log.warning(
            "%s: %s is for backend '%s', not '%s'; it is not used", path, options, meant, backend
        )
    _note_without_effect(data, _sdk_file_type(configs), str(path))
    return RunConfig(
        inner.options,
        {},
        _joined(configs.device(), inner.device),
        _joined(sdk.context_configs, inner.context),
        _joined_graphs(graphs, inner.graphs),
    )


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

    def inner(self, file: Path, configs: Configs) -> RunConfig:
        """Return the content of a backend's own file, and record its faults."""
        data, where = _json(file), str(file)
        if configs.sdk is None:
            self.check_options(data, configs, where, "$")
            return RunConfig(data)
        try:
            found = convert(data, configs.sdk, where=where)
        except ConfigError as error:
            self._errors.append(error)
            return RunConfig()
        _note_without_effect(data, configs.sdk, where)
        graphs = tuple(GraphSettings(tuple(names), own) for names, own in found.graphs())
        for i, settings in enumerate(graphs):
            self._need_names(settings.names, f"{where}: $.graphs[{i}]")
        return RunConfig({}, {}, found.device(), found.context(), graphs)

    def graphs(
        self, tables: Sequence[Any], configs: Configs, path: str
    ) -> tuple[GraphSettings, ...]:
        """Return the settings of graphs; record those for no graph."""
        found = []
        for i, table in enumerate(tables):
            names = (*filter(None, (table.graph_name,)), *table.graph_names)
            self._need_names(names, f"{self._where}: {path}[{i}]")
            own = configs.graph.__struct_fields__
            config = configs.graph(**{name: getattr(table, name) for name in own})
            found.append(GraphSettings(names, config))
        return tuple(found)

    def _need_names(self, names: Sequence[str], where: str) -> None:
        if not names:
            hint = "add graph_name or graph_names"
            self._errors.append(ConfigError("settings of no graph", where=where, hint=hint))

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


def _has_all(struct: type[msgspec.Struct], data: Mapping[str, Any]) -> bool:
    """Return whether a Struct has all keys of some data."""
    return data.keys() <= {field.encode_name for field in msgspec.structs.fields(struct)}


def _of_member(inner: RunConfig, name: str, backend: str, configs: Configs) -> RunConfig:
    """Return the content of a member's own file as settings of `hetero`."""

    def of_member(own: msgspec.Struct) -> dict[str, Any]:
        return {"members": {name: _given(own)}}

    return RunConfig(
        options_from(backend, PlacementOptions(), {name: inner.options}),
        {},
        convert(of_member(inner.device), configs.device, where=name),
        convert(of_member(inner.context), configs.context, where=name),
        tuple(
            GraphSettings(g.names, convert(of_member(g.config), configs.graph, where=name))
            for g in inner.graphs
        ),
    )


def _given(config: msgspec.Struct) -> dict[str, Any]:
    """Return the settings that differ from their defaults, as plain data."""
    plain, default = msgspec.to_builtins(config), msgspec.to_builtins(type(config)())
    return {key: value for key, value in plain.items() if value != default[key]}


def _joined(outer: C, inner: msgspec.Struct) -> C:
    """Return settings with those of a backend's own file."""
    default = type(inner)()
    names = inner.__struct_fields__
    own = {n: getattr(inner, n) for n in names if getattr(inner, n) != getattr(default, n)}
    return msgspec.structs.replace(outer, **own) if own else outer


def _joined_graphs(
    outer: Sequence[GraphSettings], inner: Sequence[GraphSettings]
) -> tuple[GraphSettings, ...]:
    """Return the settings of graphs in both files; a graph may have some in each."""
    found, more = list(outer), []
    for settings in inner:
        for name in settings.names:
            at = next((i for i, known in enumerate(outer) if known.names == (name,)), None)
            if at is None:
                more.append(GraphSettings((name,), settings.config))
            else:
                found[at] = GraphSettings((name,), _joined(found[at].config, settings.config))
    return (*found, *more)


def _note_without_effect(data: Mapping[str, Any], to: type[msgspec.Struct], where: str) -> None:
    """Log one warning for all settings that have no effect."""
    if names := [path.removeprefix("$.") for path in keys_without_effect(dict(data), to)]:
        log.warning("%s: no effect here: %s", where, ", ".join(names))


# Errors of both parsers: bad syntax, integers of thousands of digits, and nesting that is too deep.
_UNPARSABLE = (ValueError, RecursionError)
_MAX_BYTES = 16 * 2**20  # of a config file


def _toml(path: Path) -> dict[str, Any]:
    import tomllib  # imported here: most sessions have no config file

    try:
        return tomllib.loads(_text(path))
    except _UNPARSABLE as error:
        raise _malformed(path, "TOML", str(error)) from error


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_text(path), object_pairs_hook=_object)
    except _UNPARSABLE as error:
        raise _malformed(path, "JSON", str(error)) from error
    if not isinstance(data, dict):
        raise _malformed(path, "JSON", "expected an object")
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(name for name, _ in pairs)
        twice = ", ".join(f"'{name}'" for name, count in names.items() if count > 1)
        raise ValueError(f"duplicate keys in one object: {twice}")
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:  # a device may have no end
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise OSError(f"more than {_MAX_BYTES} bytes")
        return content.decode()
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
