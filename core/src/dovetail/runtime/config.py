"""Configs of backends, devices, contexts and graphs: typed, with QNN's keys."""

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
            ConfigError: There is none of that name.
        """
        names = {p.name.lower(): p for p in cls}
        if name not in names:
            near = nearest(name, names)
            raise ConfigError(
                f"'{name}' is no priority",
                where=where,
                hint=f"did you mean '{near}'?" if near else f"valid: {', '.join(names)}",
            )
        return names[name]


class DeviceConfig(msgspec.Struct, frozen=True):
    """Config of a device. There is nothing to set on the host yet."""


class ContextConfig(msgspec.Struct, frozen=True):
    """Config of a context.

    Attributes:
        context_priority: Of its graphs, unless they have their own.
        async_execute_queue_depth: Executions that may wait at once.
    """

    context_priority: str = "normal"
    async_execute_queue_depth: QueueDepth = 10


class GraphConfig(msgspec.Struct, frozen=True):
    """Config of a graph.

    Attributes:
        graph_priority: Its own; None takes the context's.
    """

    graph_priority: str | None = None


def typed_config(config: C | Mapping[str, Any] | None, to: type[C], where: str) -> C:
    """Return a config as its Struct.

    Args:
        config: The Struct, plain data, or None for all defaults.
        to: Class of the Struct.
        where: Names the config in errors.

    Raises:
        ConfigError: Unknown keys, or a wrong type.
    """
    if isinstance(config, to):
        return config
    data: Mapping[str, Any] = config if isinstance(config, Mapping) else {}
    return convert(dict(data), to, where=where)
