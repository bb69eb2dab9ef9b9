"""The backend `auto`: rules and a short trial choose one of its candidates for each graph."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec.structs import replace

from dovetail import __version__
from dovetail.container import WeightStore
from dovetail.errors import PluginError
from dovetail.ops import NodeView, OpRegistry
from dovetail.runtime.choice.candidates import Candidates
from dovetail.runtime.choice.context import AutoContext
from dovetail.runtime.choice.options import AutoOptions
from dovetail.runtime.choice.plans import problems_of
from dovetail.runtime.contract import Configs, Fingerprint, Platform, Support
from dovetail.runtime.names import AUTO
from dovetail.runtime.placement.backend import HeteroBackend
from dovetail.runtime.placement.options import (
    HeteroContextConfig,
    HeteroDeviceConfig,
    HeteroGraphConfig,
)


class AutoBackend(HeteroBackend):
    """Runs each graph on one of several backends, its candidates, or in parts on several of them.

    Candidates that cannot be used are skipped, with the reason. Without any it can be created and
    described, but supports nothing.

    Args:
        ops: The op registry of the handle, which the candidates share.
        options: The options.

    Raises:
        ConfigError: The options have faults.
        PluginError: Named candidates are not installed; all are listed.
    """

    name: ClassVar[str] = AUTO
    configs: ClassVar[Configs] = Configs(
        backend=AutoOptions,
        device=HeteroDeviceConfig,
        context=HeteroContextConfig,
        graph=HeteroGraphConfig,
    )
    options: AutoOptions

    def __init__(self, ops: OpRegistry, options: AutoOptions) -> None:
        found = Candidates.of(ops, options)
        self.members, self.unusable = found.usable, found.unusable
        order = tuple(member.name for member in self.members)
        self.options = msgspec.structs.replace(options, order=order)

    def platform(self) -> Platform:
        """Return the devices and libraries of all candidates, and those that cannot be used."""
        found = super().platform()
        names = ", ".join(member.name for member in self.members) or "none"
        unusable = (f"{each.backend} cannot be used: {each.excluded}" for each in self.unusable)
        return replace(found, notes=(f"candidates: {names}", *unusable, *found.notes))

    def validate(
        self, node: NodeView, device: HeteroDeviceConfig, config: HeteroGraphConfig
    ) -> Support:
        """Support a node that a candidate supports; otherwise return the reasons of all."""
        if not self.members:
            return Support(False, "choice", "candidates", "empty", rewrite="see `dovetail doctor`")
        return super().validate(node, device, config)

    def open_context(
        self, device: HeteroDeviceConfig, config: HeteroContextConfig, weights: WeightStore
    ) -> AutoContext:
        """Return a context; those of candidates are opened when a graph needs them.

        Raises:
            ConfigError: Settings are for unknown candidates.
            PluginError: No candidate can be used; every reason is listed.
        """
        if not self.members:
            raise PluginError(
                f"no candidate of '{AUTO}' can be used",
                code="PLUGIN_MISSING",
                where=f"backend '{AUTO}'",
                hint=f"name candidates, for example {AUTO}:cpu; `dovetail plugins` lists backends",
                problems=problems_of(self.unusable),
            )
        self.check_members(device, config)
        return AutoContext(self, device, config, weights)

    def fingerprint(self, device: HeteroDeviceConfig) -> Fingerprint:
        """Return what all graphs depend on; an image has the facts of the candidates it is for."""
        return Fingerprint(
            {"backend": self.name, "version": __version__, "precision": self.options.precision}
        )
