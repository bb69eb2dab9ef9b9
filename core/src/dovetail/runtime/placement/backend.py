"""The backend `hetero`: the first backend of an order that supports a node runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from dovetail import __version__
from dovetail.container import WeightStore
from dovetail.errors import ConfigError
from dovetail.ops import NodeView, OpRegistry
from dovetail.runtime.config import GraphConfig
from dovetail.runtime.contract import (
    SUPPORTED,
    Capabilities,
    Configs,
    Fingerprint,
    Platform,
    Support,
)
from dovetail.runtime.names import HETERO
from dovetail.runtime.placement.context import HeteroContext
from dovetail.runtime.placement.images import joined_fingerprint
from dovetail.runtime.placement.members import Member, close_all, create_members
from dovetail.runtime.placement.options import (
    HeteroContextConfig,
    HeteroDeviceConfig,
    HeteroGraphConfig,
    HeteroOptions,
    unknown_members,
    unknown_pins,
)

# Capabilities that it has if all members have them.
_SHARED = (
    "op_packages",
    "opaque_ops",
    "caching",
    "cancel",
    "watch",
    "asynchronous",
    "priority",
    "updates",
    "memory_handles",
)
_HINT = f"name them, for example {HETERO}:htp,cpu, or as `order` of `[placement]`"


class HeteroBackend:
    """Runs the parts of a graph on several backends, its members.

    Without an order it has no members: it can be created and described, but supports nothing.

    Args:
        ops: The op registry of the handle, which the members share.
        options: The options.

    Raises:
        ConfigError: The options have faults; all are listed.
        PluginError: Backends are not installed, or cannot be loaded.
        BackendError: A backend cannot be started.
    """

    name: ClassVar[str] = HETERO
    configs: ClassVar[Configs] = Configs(
        backend=HeteroOptions,
        device=HeteroDeviceConfig,
        context=HeteroContextConfig,
        graph=HeteroGraphConfig,
    )

    def __init__(self, ops: OpRegistry, options: HeteroOptions) -> None:
        self.options = options
        self.members: tuple[Member, ...] = create_members(ops, options)

    def capabilities(self) -> Capabilities:
        """Return what all members are capable of, and the tensors that any of them supports.

        Executions do not overlap and sizes are fixed, since there is one set of buffers between
        parts, in the memory of the host.
        """
        able = [member.capabilities for member in self.members]
        if not able:
            return Capabilities()
        flags = (name for name in _SHARED if all(getattr(each, name) for each in able))
        return Capabilities(
            **dict.fromkeys(flags, True),
            records_only=any(each.records_only for each in able),
            custom_memory=len(able) == 1 and able[0].custom_memory,
            data_formats=frozenset().union(*(each.data_formats for each in able)),
            encodings=frozenset().union(*(each.encodings for each in able)),
            profile_levels=tuple(
                level
                for level in able[0].profile_levels
                if all(level in each.profile_levels for each in able)
            ),
        )

    def platform(self) -> Platform:
        """Return the devices and libraries of all members."""
        described = [(member.name, member.plugin.platform()) for member in self.members]
        return Platform(
            tuple(
                replace(device, name=f"{name}:{device.name}")
                for name, each in described
                for device in each.devices
            ),
            __version__,
            tuple(f"{name}: {note}" for name, each in described for note in each.notes),
        )

    def validate(
        self, node: NodeView, device: HeteroDeviceConfig, config: HeteroGraphConfig
    ) -> Support:
        """Support a node that a member supports; otherwise return the reasons of all members."""
        rejections: list[Support] = []
        settings = self.graph_config(config)
        for member in self.members:
            verdict = member.validate(node, device, settings)
            if verdict.ok:
                return SUPPORTED
            rejections.append(verdict)
        if not rejections:
            return Support(False, "placement", "order", "empty", rewrite=_HINT)
        first, *others = rejections
        named = zip(self.members[1:], others, strict=True)
        texts = [f"{member.name}: {verdict}" for member, verdict in named]
        return replace(first, rewrite="; ".join(filter(None, [first.rewrite, *texts])))

    def open_context(
        self, device: HeteroDeviceConfig, config: HeteroContextConfig, weights: WeightStore
    ) -> HeteroContext:
        """Open a context of each member.

        Raises:
            ConfigError: There are no members, or settings are for unknown ones.
            BackendError: A member failed.
        """
        if not self.members:
            raise ConfigError(f"no backends given for '{HETERO}'", where="placement", hint=_HINT)
        self.check_members(device, config)
        return HeteroContext(self, device, config, weights)

    def check_members(self, device: HeteroDeviceConfig, config: HeteroContextConfig) -> None:
        """Raise for settings of backends that are not members.

        Raises:
            ConfigError: There are such settings; all are listed.
        """
        faults = [
            *unknown_members(device.members, self._order),
            *unknown_members(config.members, self._order),
        ]
        if faults:
            raise ConfigError("settings for other backends than the members", problems=faults)

    def fingerprint(self, device: HeteroDeviceConfig) -> Fingerprint:
        """Return the fingerprints of all members, the order and the pins."""
        return self.fingerprint_of(self.members, device)

    def fingerprint_of(self, members: Sequence[Member], device: HeteroDeviceConfig) -> Fingerprint:
        """Return the fingerprints of some members, their order and the pins."""
        prints = [member.fingerprint(device) for member in members]
        order = ",".join(member.name for member in members)
        pin = msgspec.json.encode(dict(sorted(self.options.pin.items()))).decode()
        return joined_fingerprint(
            prints, backend=self.name, order=order, pin=pin, version=__version__
        )

    def close(self) -> None:
        """Close all members."""
        close_all((member.name, member.plugin) for member in self.members)

    def graph_config(self, config: GraphConfig) -> HeteroGraphConfig:
        """Return the settings of a graph, checked.

        Raises:
            ConfigError: They name other backends than the members; all are listed.
        """
        if not isinstance(config, HeteroGraphConfig):
            config = HeteroGraphConfig(config.graph_priority)
        order = self._order
        if faults := [*unknown_pins(config.pin, order), *unknown_members(config.members, order)]:
            raise ConfigError("the graph's config names unknown backends", problems=faults)
        return config

    @property
    def _order(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)
