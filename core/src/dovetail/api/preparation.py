"""Preparation of models on a backend by a config: what sessions and `net-run` begin with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dovetail.container import Model
from dovetail.ops import OpPackage, OpRegistry
from dovetail.runtime import Backend, Context, Graph
from dovetail.runtime.config_file import RunConfig, config_from, load_config
from dovetail.runtime.names import backend_name

Config = str | os.PathLike[str] | Mapping[str, Any] | None


class Preparer:
    """A backend with a config, on which models are prepared.

    Args:
        backend: Name of the backend, or the SDK's library for it.
        config: Path of a config file, or a mapping in the form of our TOML.
        options: Options of the backend; they replace those of the config.
        ops: The ops; by default those of all installed op packages.
        packages: Op packages that are not installed.

    Attributes:
        backend: The handle of the backend.
        config: The config.

    Raises:
        DovetailError: The config is wrong, or the backend cannot be created.
    """

    def __init__(
        self,
        backend: str,
        config: Config = None,
        options: Mapping[str, Any] | None = None,
        ops: OpRegistry | None = None,
        packages: Iterable[OpPackage] = (),
    ) -> None:
        name = backend_name(backend)
        self.config = _run_config(config, name)
        self.backend = Backend.create(name, {**self.config.options, **(options or {})}, ops)
        for package in packages:
            self.backend.register_op_package(package)
        self._device = self.backend.create_device(self.config.device)

    def prepare(
        self, models: Iterable[Model], finalize: Callable[[Graph], None] = Graph.finalize
    ) -> Context:
        """Return a context with the models' graphs, finalized.

        Args:
            models: The models.
            finalize: Finalizes a graph.

        Raises:
            DovetailError: A graph has faults, or the backend does not run it.
        """
        context = self.backend.create_context(self._device, self.config.context)
        try:
            for model in models:
                for graph in context.compose(model):
                    settings = self.config.graph_config(graph.name)
                    if settings is not None:
                        graph.set_config(settings)
                    finalize(graph)
        except BaseException:
            context.free()
            raise
        return context


def _run_config(config: Config, backend: str) -> RunConfig:
    if config is None or isinstance(config, Mapping):
        return config_from(config or {}, backend, "config")
    return load_config(os.fspath(config), backend)
