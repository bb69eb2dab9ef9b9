"""Another backend for recorded calls: what is kept of the recorded settings, and what is dropped.

Options of a backend and of its devices are valid for that backend only. Of the settings of contexts
and graphs, those that every backend has (priorities, the depth of queues) are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.errors import DovetailError, TraceError
from dovetail.runtime.api_table import API, ArgKind
from dovetail.runtime.calls import CallRecord
from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig
from dovetail.runtime.config_file import RunConfig
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
        has_config: Whether the settings are those of a config, not the recorded ones.
    """

    def __init__(self, backend: str | None, config: RunConfig | None = None) -> None:
        self._backend = backend
        self._config = config
        self.has_config = config is not None
        self._is_other: dict[int, bool] = {}  # by handle: whether its backend was replaced
        self.dropped: dict[str, None] = {}

    def __call__(self, record: CallRecord, where: str) -> CallRecord:
        """Return the record of the call to make.

        Raises:
            TraceError: The arguments are not those of the call.
        """
        if self._backend is None and self._config is None:
            return record
        if record.function == "backend_create":
            record, is_other = self._create(record, where)
        else:
            owner = -1 if record.owner is None else record.owner
            is_other = self._is_other.get(owner, False)
            if record.function in _SHARED:
                record = self._configure(record, where, is_other)
        result = API[record.function].result
        if result is not None and result.kind is ArgKind.HANDLE and result.of != "tensor":
            number = returned_handle(record, where)
            if number is not None:
                self._is_other[number] = is_other
        return record

    def _create(self, record: CallRecord, where: str) -> tuple[CallRecord, bool]:
        arguments = _arguments(record, where)
        reference = arguments.get("name")
        recorded = reference.get("name") if isinstance(reference, dict) else None
        if not isinstance(recorded, str):  # the recorded call failed; so does this one
            return record, False
        target = self._backend or recorded
        is_other = _canonical(target) != _canonical(recorded)
        config = arguments.get("config")
        if self._config is not None:
            arguments["config"] = dict(self._config.options) or None
        elif is_other and config:
            self._drop(f"options of backend '{recorded}'", config)
            arguments["config"] = None
        if is_other:
            arguments["name"] = {"name": target}
        return _with(record, arguments), is_other

    def _configure(self, record: CallRecord, where: str, is_other: bool) -> CallRecord:
        arguments = _arguments(record, where)
        recorded = arguments.get("config")
        found = recorded if isinstance(recorded, dict) else {}
        if self._config is not None:
            found = self._given(record.function, arguments.get("name"))
        elif is_other:
            shared = set(_SHARED[record.function].__struct_fields__)
            kept = {key: value for key, value in found.items() if key in shared}
            rest = {key: value for key, value in found.items() if key not in shared}
            self._drop(f"settings of {record.function}", rest)
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

    def _drop(self, what: str, config: Mapping[str, Any]) -> None:
        if names := ", ".join(key for key, value in config.items() if value is not None):
            self.dropped[f"{what}: {names}"] = None


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
