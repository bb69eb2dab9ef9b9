"""Another backend for recorded calls: what is kept of the recorded settings, and what is dropped.

Options of a backend and of its devices are valid for that backend only. Of the settings of contexts
and graphs, those that every backend has (priorities, the depth of queues) are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.errors import DovetailError, TraceError
from dovetail.runtime.api_table import API, ArgKind
from dovetail.runtime.calls import CallRecord
from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig
from dovetail.runtime.config_file import RunConfig
from dovetail.runtime.installed import backend_class
from dovetail.runtime.names import backend_name
from dovetail_saver.uses import returned_handle

_SHARED: Mapping[str, type[msgspec.Struct]] = {
    "device_create": DeviceConfig,
    "context_create": ContextConfig,
    "graph_create": GraphConfig,
    "graph_set_config": GraphConfig,
    "backend_validate_op": GraphConfig,
}


class Retarget:
    """Rewriting of records into calls of another backend.

    Args:
        backend: Name of the backend; None for the recorded ones.
        config: Settings to use instead of the recorded ones.

    Attributes:
        dropped: The recorded settings that were left out, each with the call that had them.
    """

    def __init__(self, backend: str | None, config: RunConfig | None = None) -> None:
        self._backend = backend
        self._config = config
        self._replaced: dict[int, str] = {}  # by handle: the backend that was replaced, or empty
        self.dropped: dict[str, None] = {}

    def __call__(self, record: CallRecord, where: str) -> CallRecord:
        """Return the record of the call to make.

        Raises:
            TraceError: The arguments are not those of the call.
        """
        if self._backend is None and self._config is None:
            return record
        if record.function == "backend_create":
            record, replaced = self._create(record, where)
        else:
            replaced = self._replaced.get(-1 if record.owner is None else record.owner, "")
            if record.function in _SHARED:
                record = self._configure(record, where, replaced)
        result = API[record.function].result
        if result is not None and result.kind is ArgKind.HANDLE and result.of != "tensor":
            number = returned_handle(record, where)
            if number is not None:
                self._replaced[number] = replaced
        return record

    def _create(self, record: CallRecord, where: str) -> tuple[CallRecord, str]:
        arguments = _arguments(record, where)
        reference = arguments.get("name")
        recorded = reference.get("name") if isinstance(reference, dict) else None
        if not isinstance(recorded, str):  # the recorded call failed; so does this one
            return record, ""
        target = self._backend or recorded
        is_other = _canonical(target) != _canonical(recorded)
        config = arguments.get("config")
        if self._config is not None:
            arguments["config"] = dict(self._config.options) or None
        elif is_other and config:
            self._drop(f"options of backend '{recorded}'", config, {})
            arguments["config"] = None
        if is_other:
            arguments["name"] = {"name": target}
        return _with(record, arguments), recorded if is_other else ""

    def _configure(self, record: CallRecord, where: str, replaced: str) -> CallRecord:
        arguments = _arguments(record, where)
        recorded = arguments.get("config")
        found = recorded if isinstance(recorded, dict) else {}
        if self._config is not None:
            found = self._given(record.function, arguments.get("name"))
        elif replaced:
            shared = set(_SHARED[record.function].__struct_fields__)
            kept = {key: value for key, value in found.items() if key in shared}
            rest = {key: value for key, value in found.items() if key not in shared}
            usual = _defaults(replaced, _SHARED[record.function])
            self._drop(f"settings of {record.function}", rest, usual)
            found = kept
        if record.function == "graph_set_config" or found:
            arguments["config"] = found
        elif "config" in arguments:
            arguments["config"] = None
        return _with(record, arguments)

    def _given(self, function: str, name: object) -> dict[str, Any]:
        """Return the settings of the config file for a call."""
        config = self._config or RunConfig()
        found: object = None
        if function == "device_create":
            found = config.device
        elif function == "context_create":
            found = config.context
        elif function == "graph_create" and isinstance(name, str):
            found = config.graph_config(name)
        return {} if found is None else dict(msgspec.to_builtins(found))

    def _drop(self, what: str, config: Mapping[str, Any], usual: Mapping[str, Any]) -> None:
        """Note dropped settings that are not the defaults."""
        told = [k for k, value in config.items() if value is not None and value != usual.get(k)]
        if told:
            self.dropped[f"{what}: {', '.join(told)}"] = None


@functools.cache
def _defaults(backend: str, base: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the default settings of a backend; empty if it is not installed."""
    try:
        configs = backend_class(backend).configs
    except DovetailError:
        return {}
    found = next(c for c in (configs.device, configs.context, configs.graph) if issubclass(c, base))
    return dict(msgspec.to_builtins(found()))


def _canonical(name: str) -> str:
    try:
        return backend_name(name)
    except DovetailError:  # a name that no backend has
        return name


def _arguments(record: CallRecord, where: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(record.arguments, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceError(f"wrong arguments: {error}", where=where) from error


def _with(record: CallRecord, arguments: dict[str, Any]) -> CallRecord:
    return msgspec.structs.replace(record, arguments=msgspec.Raw(msgspec.json.encode(arguments)))
