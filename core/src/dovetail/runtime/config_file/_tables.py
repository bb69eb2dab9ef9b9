"""Tables that both forms of a config file have."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dovetail.errors import PluginError
from dovetail.runtime.contract import Configs
from dovetail.runtime.installed import backend_class
from dovetail.typed import keys_without_effect

log = logging.getLogger("dovetail.config")


@functools.cache
def graph_type(configs: Configs) -> type[msgspec.Struct]:
    """Return the type of one `[[graph]]`: the backend's settings, and the graphs they are for."""
    names = [("graph_name", str, ""), ("graph_names", list[str], [])]
    return msgspec.defstruct("GraphTable", names, bases=(configs.graph,), frozen=True)


def configs_of(backend: str) -> Configs:
    """Return the types of a backend's configs; core's for a backend that cannot be loaded."""
    try:
        return backend_class(backend).configs
    except PluginError:  # raised again when the backend is created
        return Configs()


def note_without_effect(
    data: Mapping[str, Any], to: type[msgspec.Struct], where: str, more: Iterable[str] = ()
) -> None:
    """Log one warning for all settings that have no effect.

    Args:
        data: The settings.
        to: Their type, whose annotations state effects.
        where: Name of the file.
        more: Paths of further settings without effect.
    """
    paths = (path.removeprefix("$.") for path in keys_without_effect(dict(data), to))
    if found := [*paths, *more]:
        log.warning("%s: no effect here: %s", where, ", ".join(found))
