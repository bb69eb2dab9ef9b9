"""Preparation of models on a backend by a config: what sessions and `net-run` begin with."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from dovetail.container import ContextFile, Model, embedded_model
from dovetail.ops import Observed, OpPackage, OpRegistry
from dovetail.runtime import (
    Backend,
    Binary,
    Compatibility,
    Context,
    Graph,
    GraphConfig,
    Profile,
    Signal,
)
from dovetail.runtime.config import DeviceConfig, changed_settings
from dovetail.runtime.config_file import RunConfig, config_from, load_config
from dovetail.runtime.context_binaries import compatibility_of, open_binary
from dovetail.runtime.names import backend_name

_LOG = logging.getLogger("dovetail.preparation")

Config = str | os.PathLike[str] | Mapping[str, Any] | None


class Recorded(NamedTuple):
    """Options and settings with which a context binary was prepared.

    Attributes:
        options: Options of the backend that differ from their defaults.
        device: Settings of the device that differ from their defaults.
    """

    options: Mapping[str, Any]
    device: Mapping[str, Any]


class Preparer:
    """A backend with a config, on which models are prepared.

    Args:
        backend: Name of the backend, or the SDK's library for it.
        config: Path of a config file, or a mapping in the form of our TOML.
        options: Options of the backend; they replace those of the config.
        ops: The ops; by default those of all installed op packages.
        packages: Op packages that are not installed.
        recorded: Options of the backend if neither the config nor `options` has some, and settings
            of the device that the config leaves out, unless it has some of them.

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
        recorded: Recorded | None = None,
    ) -> None:
        name = backend_name(backend)
        self.config = _run_config(config, name)
        given = {**self.config.options, **(options or {})}
        # those of `hetero` have its keys without values if a config has no table of them
        if recorded is not None and all(value in (None, {}) for value in given.values()):
            given = dict(recorded.options)
        self.backend = Backend.create(name, given, ops)
        for package in packages:
            self.backend.register_op_package(package)
        self._device = self.backend.create_device(_device(self.config.device, recorded))

    def load(
        self,
        binary: Binary,
        profile: Profile | None = None,
        signal: Signal | None = None,
        *,
        is_whole: bool = False,
    ) -> Context:
        """Return a context with the graphs of a context binary.

        Of the config's settings of graphs, those of the preparation are the binary's.

        Args:
            binary: The bytes of the binary, or its path.
            profile: Records the duration.
            signal: Stops the work.
            is_whole: Whether all graphs are loaded, whatever the config enables.

        Raises:
            DovetailError: The binary is damaged, or does not suit the backend.
        """
        config = self.config.context
        if is_whole:
            config = msgspec.structs.replace(config, enable_graphs=None)
        context = self.backend.create_context_from_binary(
            binary, self._device, config, profile, signal
        )
        for name in context.graphs:
            graph = context.retrieve_graph(name)  # a call of its own, for traces
            settings = self.config.graph_config(name)
            keys = () if settings is None else GraphConfig.__struct_fields__
            own = {key: value for key in keys if (value := getattr(settings, key)) is not None}
            if own:
                graph.set_config(msgspec.structs.replace(graph.config, **own))
        return context

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

    def validate(self, binary: Binary) -> Compatibility:
        """Return how well a context binary suits the backend; all its bytes are checked.

        Raises:
            DovetailError: See `Backend.validate_binary`.
        """
        return self.backend.validate_binary(binary, self._device)

    def compatibility(self, file: ContextFile) -> Compatibility:
        """Return how well a context binary or section suits the backend; only the manifest is read.

        Raises:
            BackendError: The backend cannot state what its graphs depend on.
        """
        return compatibility_of(file, self.backend, self._device)

    def upgrade(self, file: ContextFile) -> Context:
        """Return a context with the graphs of a context binary, prepared again from their models.

        Observed tensors and added outputs are those of the binary, and so are settings of graphs,
        unless the config has a table for the graph. Settings that another backend than that of the
        binary does not have are dropped with a warning.

        Raises:
            DovetailError: The binary is damaged or has no models, or the backend has no context
                binaries or does not run a graph.
        """
        model = embedded_model(file)
        self.backend.require("caching", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        self.config.require_graphs(model.graphs)
        context = self.backend.create_context(self._device, self.config.context)
        try:
            for t in file.tensors():
                context.create_tensor(
                    t.name, t.dtype, t.shape, t.kind, t.encoding, t.data, t.source
                )
            shared = {name: entry.shared for name, entry in file.graphs.items()}
            for graph in context.compose(model, shared):
                entry = file.graphs[graph.name]
                settings = self.config.graph_config(graph.name)
                graph.set_config(self._settings(file, graph.name) if settings is None else settings)
                observed = Observed(frozenset(entry.observed), entry.all_observed)
                graph.finalize(observed=observed, outputs=entry.added_outputs)
        except BaseException:
            context.free()
            raise
        return context

    def _settings(self, file: ContextFile, graph: str) -> Mapping[str, Any]:
        """Return the settings of a graph in a binary, without those of another backend."""
        settings, backend = file.graphs[graph].config, self.backend
        if backend.name == file.manifest.backend:
            return settings
        fields = msgspec.structs.fields(backend.plugin.configs.graph)
        known = {field.encode_name for field in fields}
        if dropped := sorted(settings.keys() - known):
            _LOG.warning(
                "graph '%s': settings that backend '%s' does not have are dropped: %s",
                graph,
                backend.name,
                ", ".join(dropped),
            )
        return {key: value for key, value in settings.items() if key in known}


def backend_of(binary: Binary) -> tuple[str, Recorded]:
    """Return the backend that a context binary is for, and how it was prepared.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: It is not a context binary, or its manifest is damaged.
    """
    manifest = open_binary(binary, is_persistent=True).manifest
    return manifest.backend, Recorded(manifest.options, manifest.device)


def _device(given: DeviceConfig, recorded: Recorded | None) -> DeviceConfig | Mapping[str, Any]:
    """Return the settings of a device, with those of a context binary's preparation."""
    own = changed_settings(given)
    if recorded is None or not recorded.device or own.keys() & recorded.device.keys():
        return given
    return {**recorded.device, **own}


def _run_config(config: Config, backend: str) -> RunConfig:
    if config is None or isinstance(config, Mapping):
        return config_from(config or {}, backend, "config")
    return load_config(os.fspath(config), backend)
