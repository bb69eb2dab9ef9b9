"""Typed configs of backends, devices, contexts and graphs, with QNN's keys."""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import enum
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

import msgspec

from dovetail.errors import ConfigError, nearest
from dovetail.typed import convert

C = TypeVar("C", bound=msgspec.Struct)
PriorityName = Literal["low", "normal", "normal_high", "high"]
QueueDepth = Annotated[int, msgspec.Meta(ge=1, le=2**16)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Priority(enum.IntEnum):
    """Priorities of contexts and graphs; QNN's numbers."""

    LOW = 0
    NORMAL = 100
    NORMAL_HIGH = 150
    HIGH = 200

    @classmethod
    def of(cls, name: str, where: str) -> Self:
        """Return a priority by its name in config files.

        Raises:
            ConfigError: The name is unknown.
        """
        names = {p.name.lower(): p for p in cls}
        if name not in names:
            near = nearest(name, names)
            raise ConfigError(
                f"unsupported priority '{name}'",
                where=where,
                hint=f"did you mean '{near}'?" if near else f"expected one of {', '.join(names)}",
            )
        return names[name]


class DeviceConfig(msgspec.Struct, frozen=True):
    """Config of a device; a backend's own is a subclass. The host has no settings."""


class ContextConfig(msgspec.Struct, frozen=True):
    """Config of a context; a backend's own is a subclass.

    Attributes:
        context_priority: Priority of its graphs, unless they have their own.
        async_execute_queue_depth: Maximum number of waiting executions.
        enable_graphs: Graphs of a context binary to load, in this order; by default all.
        memory_limit_hint: Memory that loaded graphs of a context binary should stay under, in MiB.
            They are loaded when they run, the first ones at once.
        is_persistent_binary: Whether the bytes of a context binary stay unchanged as long as the
            context lives, so that they are not copied.
        cache_compatibility_mode: Which context binaries are accepted: `permissive` those that run,
            `strict` only those that were prepared for this very device.
    """

    context_priority: PriorityName = "normal"
    async_execute_queue_depth: QueueDepth = 10
    enable_graphs: list[str] | None = None
    memory_limit_hint: Annotated[int, msgspec.Meta(ge=0, le=2**43)] | None = None
    is_persistent_binary: bool | None = None
    cache_compatibility_mode: Literal["permissive", "strict"] | None = None

    @property
    def is_strict(self) -> bool:
        """True if context binaries must be for this very device."""
        return self.cache_compatibility_mode == "strict"


class GraphConfig(msgspec.Struct, frozen=True):
    """Config of a graph; a backend's own is a subclass.

    Attributes:
        graph_priority: Priority of the graph; None for the context's.
        graph_profiling_start_delay: Seconds from the first execution until profiling begins, of
            sessions with a profile log and of `net-run`.
        graph_profiling_num_executions: Maximum number of executions that they profile; None without
            a limit.
    """

    graph_priority: PriorityName | None = None
    graph_profiling_start_delay: Seconds | None = None
    graph_profiling_num_executions: Count | None = None


class SdkConfig(msgspec.Struct, frozen=True):
    """A backend's own config file in the SDK's JSON; that of a backend is a subclass."""

    def options(self) -> Mapping[str, Any]:
        """Return the options of the backend."""
        return {}

    def device(self) -> DeviceConfig:
        """Return the settings of the device."""
        return DeviceConfig()

    def context(self) -> ContextConfig:
        """Return the settings of contexts."""
        return ContextConfig()

    def graphs(self) -> Sequence[tuple[Sequence[str], GraphConfig]]:
        """Return settings of graphs, each with the names of the graphs."""
        return ()

    def without_effect(self) -> Sequence[str]:
        """Return paths of settings without effect, beyond those that annotations state."""
        return ()


def typed_config(config: C | Mapping[str, Any] | None, to: type[C], where: str) -> C:
    """Return a config as its Struct.

    Args:
        config: The Struct or one that it extends, plain data, or None for all defaults.
        to: Class of the Struct.
        where: Name of the config in errors.

    Raises:
        ConfigError: The config has unknown keys or a wrong type.
    """
    if isinstance(config, to):
        return config
    data: Mapping[str, Any] = config if isinstance(config, Mapping) else {}
    if isinstance(config, msgspec.Struct):
        data = msgspec.structs.asdict(config)
    return convert(dict(data), to, where=where)


def changed_settings(config: msgspec.Struct) -> dict[str, Any]:
    """Return the settings that differ from their defaults, as plain data."""
    plain, default = msgspec.to_builtins(config), msgspec.to_builtins(type(config)())
    return {key: value for key, value in plain.items() if value != default[key]}
