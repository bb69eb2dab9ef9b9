"""Members: the backends on which `hetero` runs parts of graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec

from dovetail.errors import ConfigError, PluginError, Problem
from dovetail.ops import NodeView, OpRegistry
from dovetail.runtime import contract
from dovetail.runtime.config import typed_config
from dovetail.runtime.installed import backend_class
from dovetail.runtime.placement.options import (
    HeteroContextConfig,
    HeteroDeviceConfig,
    HeteroGraphConfig,
    HeteroOptions,
    find_faults,
    find_missing,
)
from dovetail.runtime.plugin_errors import log_errors, translate_errors
from dovetail.runtime.support import verdict

C = TypeVar("C", bound=msgspec.Struct)
Shared = HeteroDeviceConfig | HeteroContextConfig | HeteroGraphConfig


@dataclass(frozen=True, slots=True)
class Member:
    """A backend among those of `hetero`.

    Attributes:
        name: Its name.
        plugin: The backend.
        capabilities: Its capabilities.
    """

    name: str
    plugin: contract.Backend
    capabilities: contract.Capabilities
    # the last shared config of each class, with the member's own: there is one for all nodes
    _typed: dict[type, tuple[Shared, Any]] = field(default_factory=dict)

    def config(self, shared: Shared, to: type[C]) -> C:
        """Return its own config, made of a shared one.

        Args:
            shared: The config of `hetero`.
            to: Class of its own config.

        Raises:
            ConfigError: The settings for this member have unknown keys or wrong types.
        """
        known, typed = self._typed.get(to, (None, None))
        if known is not shared:
            own = shared.common() | shared.members.get(self.name, {})
            typed = typed_config(own, to, f"members.{self.name}")
            self._typed[to] = shared, typed
        return cast("C", typed)

    def fingerprint(self, device: HeteroDeviceConfig) -> contract.Fingerprint:
        """Return its fingerprint on a device."""
        return self.plugin.fingerprint(self.config(device, self.plugin.configs.device))

    def validate(
        self, node: NodeView, device: HeteroDeviceConfig, config: HeteroGraphConfig
    ) -> contract.Support:
        """Return whether it supports a node and its tensors, with the reason if not."""
        configs = self.plugin.configs
        own = self.config(device, configs.device), self.config(config, configs.graph)
        with translate_errors(self.name, "`validate` failed", "GRAPH_ERROR_GENERAL"):
            return verdict(self.plugin, self.capabilities, node, *own)


def create_members(ops: OpRegistry, options: HeteroOptions) -> tuple[Member, ...]:
    """Create the backends of an order.

    Raises:
        ConfigError: The options have faults, those of members included; all are listed.
        PluginError: Backends are not installed (all are listed), or one cannot be loaded.
        BackendError: A backend cannot be started.
    """
    missing, faults = find_missing(options), find_faults(options)
    if missing and not faults:
        raise PluginError(
            "backends of the placement are not installed",
            code="PLUGIN_MISSING",
            where="placement",
            problems=missing,
        )
    usable = () if missing or faults else options.order or ()
    classes = {name: backend_class(name) for name in usable}
    typed, wrong = _typed_options(classes, options.members)
    if problems := [*missing, *faults, *wrong]:
        raise ConfigError("the placement has faults", where="placement", problems=problems)
    made: list[Member] = []
    try:
        for name, plugin_class in classes.items():
            with translate_errors(
                name, "the backend cannot be started", "BACKEND_ERROR_CANNOT_INITIALIZE"
            ):
                plugin = plugin_class(ops, typed[name])
                made.append(Member(name, plugin, plugin.capabilities()))
    except BaseException:
        close_all((member.name, member.plugin) for member in made)
        raise
    return tuple(made)


def close_all(closing: Iterable[tuple[str, Any]]) -> None:
    """Close what members have created, everything even if some of them fail.

    Args:
        closing: Names of members, with what to close.
    """
    for name, one in closing:
        with log_errors(f"closing backend '{name}' of a placement"):
            one.close()


def _typed_options(
    classes: Mapping[str, type[contract.Backend]], given: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, contract.Options], list[Problem]]:
    """Return the options of members, and all their faults."""
    typed: dict[str, contract.Options] = {}
    faults: list[Problem] = []
    for name, found in classes.items():
        where = f"options of backend '{name}'"
        try:
            typed[name] = typed_config(given.get(name), found.configs.backend, where)
        except ConfigError as error:
            faults += (
                Problem(p.message, ": ".join(filter(None, (error.where, p.where))), p.hint)
                for p in error.as_problems("")
            )
    return typed, faults
