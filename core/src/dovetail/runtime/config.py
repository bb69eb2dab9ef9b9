"""Typed configs of backends, devices, contexts and graphs, with QNN's keys."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from dovetail.errors import ConfigError, nearest
from dovetail.typed import convert

C = TypeVar("C", bound=msgspec.Struct)
QueueDepth = Annotated[int, msgspec.Meta(ge=1, le=2**16)]


class Priority(enum.IntEnum):
    """Priorities of contexts and graphs; QNN's numbers."""

    LOW = 0
    NORMAL = 100
    NORMAL_HIGH = 150
    HIGH = 200

    @classmethod
    def of(cls, name: str, where: str) -> Priority:
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
    """Config of a device. The host has no settings."""


class ContextConfig(msgspec.Struct, frozen=True):
    """Config of a context.

    Attributes:
        context_priority: Priority of its graphs, unless they have their own.
        async_execute_queue_depth: Maximum number of waiting executions.
    """

    context_priority: str = "normal"
    async_execute_queue_depth: QueueDepth = 10


class GraphConfig(msgspec.Struct, frozen=True):
    """Config of a graph.

    Attributes:
        graph_priority: Priority of the graph; None for the context's.
    """

    graph_priority: str | None = None


def typed_config(config: C | Mapping[str, Any] | None, to: type[C], where: str) -> C:
    """Return a config as its Struct.

    Args:
        config: The Struct, plain data, or None for all defaults.
        to: Class of the Struct.
        where: Name of the config in errors.

    Raises:
        ConfigError: The config has unknown keys or a wrong type.
    """
    if isinstance(config, to):
        return config
    data: Mapping[str, Any] = config if isinstance(config, Mapping) else {}
    return convert(dict(data), to, where=where)
