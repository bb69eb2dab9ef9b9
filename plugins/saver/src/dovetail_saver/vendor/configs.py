"""Configs of Saver programs, those that ours have a field for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dovetail.runtime.config import Priority
from dovetail_saver.vendor.scope import At, Scope

CONFIG_OF: Mapping[str, bytes] = {
    "backend_create": b"QnnBackend_Config_t",
    "device_create": b"QnnDevice_Config_t",
    "context_create": b"QnnContext_Config_t",
    "graph_create": b"QnnGraph_Config_t",
    "graph_set_config": b"QnnGraph_Config_t",
}

CONTEXT_PRIORITY, QUEUE_DEPTH, ENABLE_GRAPHS, MEMORY_HINT, PERSISTENT, COMPATIBILITY = (
    1,
    4,
    5,
    6,
    7,
    8,
)
GRAPH_PRIORITY = 3
SIGNAL_ABORT, SIGNAL_TIMEOUT = 1, 2
SIGNAL_CONFIG = b"QnnSignal_Config_t"
QUEUE_DEPTH_STRUCT = b"QnnContext_AsyncExecutionQueueDepth_t"
COMPATIBILITIES = ("permissive", "strict")

Entry = tuple[str, Any] | None


def _priority(key: str) -> Callable[[Scope, At], Entry]:
    def read(scope: Scope, at: At) -> Entry:
        number = scope.integer(at)
        return (key, Priority(number).name.lower()) if number in set(Priority) else None

    return read


def _depth(scope: Scope, at: At) -> Entry:
    kind, depth = scope.struct(at, QUEUE_DEPTH_STRUCT)
    return ("async_execute_queue_depth", scope.integer(depth)) if not kind.value else None


def _graphs(scope: Scope, at: At) -> Entry:
    names = [scope.text(each) for each in scope.array(at, b"char", None) if each.value is not None]
    return "enable_graphs", names


def _compatibility(scope: Scope, at: At) -> Entry:
    number = scope.integer(at)
    known = 0 <= number < len(COMPATIBILITIES)
    return ("cache_compatibility_mode", COMPATIBILITIES[number]) if known else None


_READERS: Mapping[bytes, Mapping[int, Callable[[Scope, At], Entry]]] = {
    b"QnnContext_Config_t": {
        CONTEXT_PRIORITY: _priority("context_priority"),
        QUEUE_DEPTH: _depth,
        ENABLE_GRAPHS: _graphs,
        MEMORY_HINT: lambda scope, at: ("memory_limit_hint", scope.integer(at)),
        PERSISTENT: lambda scope, at: ("is_persistent_binary", scope.integer(at) != 0),
        COMPATIBILITY: _compatibility,
    },
    b"QnnGraph_Config_t": {GRAPH_PRIORITY: _priority("graph_priority")},
}


def read_configs(
    scope: Scope, at: At, kind: bytes, unknown: Callable[[str], None]
) -> dict[str, Any] | None:
    """Return the configs of a call as ours; None if there are none.

    Args:
        scope: The variables.
        at: An array of pointers to configs, or NULL.
        kind: Their type.
        unknown: Receives what is known about each config that ours do not have.

    Raises:
        TraceError: They are not well formed.
    """
    found: dict[str, Any] = {}
    for each in scope.array(at, kind, None):
        if each.value is None:
            break
        option, value = scope.struct(each, kind)
        number = scope.integer(option)
        read = _READERS.get(kind, {}).get(number)
        entry = None if read is None else read(scope, value)
        if entry is None:
            unknown(f"{kind.decode()}: option {number}")
        else:
            found[entry[0]] = entry[1]
    return found or None


def read_signal(scope: Scope, at: At) -> tuple[int, int | None]:
    """Return the kind of a signal, and its timeout in microseconds."""
    options = [
        scope.struct(each, SIGNAL_CONFIG)
        for each in scope.array(at, SIGNAL_CONFIG, None)
        if each.value is not None
    ]
    kinds = {scope.integer(option): value for option, value in options}
    if SIGNAL_TIMEOUT in kinds:
        return SIGNAL_TIMEOUT, scope.integer(kinds[SIGNAL_TIMEOUT])
    return SIGNAL_ABORT, None


def write_configs(function: str, config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the options of a config as initializers, and the keys that C does not have.

    Args:
        function: Our name of the call.
        config: The config, plain data.
    """
    kind = CONFIG_OF[function].decode()
    writers = _WRITERS.get(CONFIG_OF[function], {})
    found, unknown = [], []
    for key, value in config.items():
        if value is None:
            continue
        option, write = writers.get(key, (0, None))
        text = None if write is None else write(value)
        if text is None:
            unknown.append(key)
        else:
            found.append(f"({kind[:-9]}_ConfigOption_t){option}, {text}")
    return found, unknown


def _write_priority(value: Any) -> str | None:
    known = {p.name.lower(): p.value for p in Priority}
    return f".priority = (Qnn_Priority_t){known[value]}" if value in known else None


def _write_compatibility(value: Any) -> str | None:
    if value not in COMPATIBILITIES:
        return None
    number = COMPATIBILITIES.index(value)
    return f".cacheCompatibilityMode = (QnnContext_BinaryCompatibilityType_t){number}"


_Writers = Mapping[str, tuple[int, Callable[[Any], str | None]]]
_WRITERS: Mapping[bytes, _Writers] = {
    b"QnnContext_Config_t": {
        "context_priority": (CONTEXT_PRIORITY, _write_priority),
        "async_execute_queue_depth": (
            QUEUE_DEPTH,
            lambda n: (
                f".asyncExeQueueDepth = {{(QnnContext_AsyncExecutionQueueDepthType_t)0, {n}}}"
            ),
        ),
        "memory_limit_hint": (MEMORY_HINT, lambda n: f".memoryLimitHint = {n}"),
        "is_persistent_binary": (PERSISTENT, lambda n: f".isPersistentBinary = {int(n)}"),
        "cache_compatibility_mode": (COMPATIBILITY, _write_compatibility),
    },
    b"QnnGraph_Config_t": {"graph_priority": (GRAPH_PRIORITY, _write_priority)},
}
