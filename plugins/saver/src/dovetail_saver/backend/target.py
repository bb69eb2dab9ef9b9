"""The target of a Saver backend: the backend whose verdicts it gives."""

from __future__ import annotations

from dovetail.errors import ConfigError
from dovetail.ops import NodeView, OpRegistry
from dovetail.runtime import contract
from dovetail.runtime.config import typed_config
from dovetail.runtime.installed import backend_class
from dovetail.runtime.names import backend_name, split_arch
from dovetail_saver.backend.options import SaverOptions


class Target:
    """A backend that is asked and never runs anything.

    Args:
        ops: The op registry.
        options: Those of the Saver.

    Attributes:
        plugin: The backend.

    Raises:
        PluginError: The backend is not installed, or cannot be loaded.
        ConfigError: Its options are wrong, or it is a Saver.
    """

    def __init__(self, ops: OpRegistry, options: SaverOptions) -> None:
        name, arch = split_arch(backend_name(options.target))
        where = "target_options of backend 'saver'"
        if name == "saver":
            raise ConfigError("the target of a Saver must be another backend", where=where)
        given = options.target_options if arch is None else {**options.target_options, "arch": arch}
        found = backend_class(name)
        self.plugin = found(ops, typed_config(given, found.configs.backend, where))

    def validate(self, node: NodeView) -> contract.Support:
        """Return whether the backend supports a node on its default device."""
        configs = self.plugin.configs
        return self.plugin.validate(node, configs.device(), configs.graph())
