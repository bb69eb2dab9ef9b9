"""The config of a run, and joining the settings of two files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig, QueueDepth

C = TypeVar("C", bound=msgspec.Struct)


class ProfileConfig(msgspec.Struct, frozen=True):
    """`[profile]`, the SDK's `profile_configs`.

    Attributes:
        num_max_events: Maximum number of events of each graph in a profile log; None without a
            limit.
    """

    num_max_events: Annotated[int, msgspec.Meta(ge=1)] | None = None


class OverlapConfig(msgspec.Struct, frozen=True):
    """`[async_graph_execution]`, the SDK's `async_graph_execution_config`; of `net-run`.

    Attributes:
        input_tensors_creation_tasks_limit: Maximum number of input sets in memory that wait for
            their execution, or are used by it; None for the context's queue depth.
        execute_enqueue_tasks_limit: Maximum number of executions in the queue; None for its depth.
    """

    input_tensors_creation_tasks_limit: QueueDepth | None = None
    execute_enqueue_tasks_limit: QueueDepth | None = None


class GraphSettings(msgspec.Struct, frozen=True):
    """One `[[graph]]`.

    Attributes:
        names: Names of the graphs that it is for.
        config: The settings.
    """

    names: tuple[str, ...]
    config: GraphConfig


class RunConfig(msgspec.Struct, frozen=True):
    """Content of a config file, for one backend.

    Attributes:
        options: The backend's options as plain data; typed when the backend is created.
        others: Options of other backends, by name.
        device: Settings of the device.
        context: Settings of the context.
        graphs: Settings of graphs.
        profile: Settings of profile logs.
        overlap: Limits of executions that overlap.
    """

    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    others: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    device: DeviceConfig = DeviceConfig()
    context: ContextConfig = ContextConfig()
    graphs: tuple[GraphSettings, ...] = ()
    profile: ProfileConfig = ProfileConfig()
    overlap: OverlapConfig = OverlapConfig()

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


def joined(outer: C, inner: msgspec.Struct) -> C:
    """Return settings with those of a backend's own file."""
    default = type(inner)()
    names = inner.__struct_fields__
    own = {n: getattr(inner, n) for n in names if getattr(inner, n) != getattr(default, n)}
    return msgspec.structs.replace(outer, **own) if own else outer


def joined_graphs(
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
                found[at] = GraphSettings((name,), joined(found[at].config, settings.config))
    return (*found, *more)
