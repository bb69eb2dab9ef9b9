"""Backends in use, from which all other handles are created."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypeVar
from weakref import WeakSet

from dovetail import ir
from dovetail.container import Closing, ContextSummary, WeightStore, summarize_context
from dovetail.errors import (
    BackendError,
    OpError,
    Problem,
    UnsupportedOpError,
    counted,
)
from dovetail.ops import NodeView, OpPackage, OpRegistry, checked_node, opaque_node
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import contract
from dovetail.runtime.compatibility import Compatibility
from dovetail.runtime.config import (
    ContextConfig,
    DeviceConfig,
    GraphConfig,
    Priority,
    typed_config,
)
from dovetail.runtime.context import Context
from dovetail.runtime.context_binaries import Binary, compatibility_of, open_binary
from dovetail.runtime.device import Device, platform_of
from dovetail.runtime.enums import ProfileLevel, SignalKind
from dovetail.runtime.handle import Handle, api_call
from dovetail.runtime.installed import backend_class, checked_class, named_options
from dovetail.runtime.measurements import EventType
from dovetail.runtime.names import backend_name
from dovetail.runtime.plugin_errors import log_errors, translate_errors
from dovetail.runtime.profile import Profile
from dovetail.runtime.properties import PROPERTIES
from dovetail.runtime.signal import Signal, controlled
from dovetail.runtime.support import verdict

H = TypeVar("H", bound=Handle)


class Backend(Handle, Closing):
    """A backend in use, from which all other handles are created.

    A context manager; leaving it frees contexts, devices and the backend.

    Attributes:
        plugin: The backend plugin.
        ops: The op registry.
        options: The backend's options.
        capabilities: Its capabilities.
        contexts: Its contexts.
        weights: The store whose siblings the contexts have.
    """

    kind = "backend"
    invalid_code = "BACKEND_ERROR_INVALID_HANDLE"

    def __init__(
        self, plugin: contract.Backend, ops: OpRegistry, options: contract.Options
    ) -> None:
        super().__init__()
        self.plugin = plugin
        self.ops = ops
        self.options = options
        self.capabilities = plugin.capabilities()
        self.weights = WeightStore()
        self.contexts: list[Context] = []
        self._children: WeakSet[Handle] = WeakSet()  # handles that become invalid with it
        self._host: Device | None = None

    @classmethod
    @api_call("backend_create")
    def create(
        cls,
        name: str | type[contract.Backend],
        config: contract.Options | Mapping[str, Any] | None = None,
        ops: OpRegistry | None = None,
    ) -> Backend:
        """Create a handle of an installed backend.

        Args:
            name: Name of the plugin; `libQnnCpu.so`, with or without a path, means `cpu`,
                `htp:v73` the backend `htp` with this option `arch`, and `hetero:a,b` or `auto:a,b`
                the backends `hetero` and `auto` with this order. Or a class that is not installed.
            config: The backend's options.
            ops: The ops; by default those of all installed op packages.

        Raises:
            PluginError: The backend is not installed, cannot be loaded or does not meet the
                contract.
            ConfigError: The options are wrong.
            BackendError: The backend cannot be started.
        """
        plugin_class = backend_class(name) if isinstance(name, str) else checked_class(name)
        registry = installed_ops() if ops is None else ops
        where = f"options of backend '{plugin_class.name}'"
        options = typed_config(config, plugin_class.configs.backend, where)
        if isinstance(name, str):
            options = named_options(backend_name(name), options)
        with translate_errors(
            plugin_class.name,
            "the backend cannot be started",
            "BACKEND_ERROR_CANNOT_INITIALIZE",
        ):
            return cls(plugin_class(registry, options), registry, options)

    @property
    def name(self) -> str:
        """Name of the plugin."""
        return self.plugin.name

    @property
    def host(self) -> Device:
        """The device of contexts that are created without one."""
        if self._host is None:
            self._host = self._own(Device(self, self.plugin.configs.device()))
        return self._host

    def describe(self) -> str:
        """Return the backend's name for errors."""
        return f"backend '{self.name}'"

    def require(self, capability: str, code: str) -> None:
        """Raise if the backend lacks a capability.

        Raises:
            BackendError: It does; the error has the code `code`.
        """
        if not getattr(self.capabilities, capability):
            raise BackendError(
                f"backend '{self.name}' does not have the capability '{capability}'", code=code
            )

    @api_call("backend_has_capability")
    def has_capability(self, key: int) -> bool:
        """Return whether the backend has the property with QNN's number `key`.

        Raises:
            BackendError: The key is unknown.
        """
        if key not in PROPERTIES:
            raise BackendError(f"unknown property key {key}", code="PROPERTY_ERROR_UNKNOWN_KEY")
        return PROPERTIES[key].holds(self.capabilities)

    @api_call("backend_register_op_package")
    def register_op_package(self, package: OpPackage) -> None:
        """Add an op package that is not installed.

        Raises:
            BackendError: The backend supports only its own ops.
            PluginError: Another package has the name.
        """
        self.require("op_packages", "BACKEND_ERROR_NOT_SUPPORTED")
        self.ops.add(package)

    @api_call("backend_validate_op")
    def validate_op(
        self,
        node: ir.Node,
        device: Device | None = None,
        config: GraphConfig | Mapping[str, Any] | None = None,
    ) -> contract.Support:
        """Return whether the backend supports a node, with the reason if not.

        Args:
            node: The node.
            device: By default the host.
            config: Settings of the graph that it is meant for.

        Raises:
            OpError: The node does not match its op.
            BackendError: The device belongs to another backend, or the backend failed.
            ConfigError: The config is wrong.
        """
        view, faults = self.checked(node)
        if view is None:
            raise OpError("the node does not match its op", where=node.where, problems=faults)
        device = self._own_device(device)
        settings = typed_config(config, self.plugin.configs.graph, "graph config")
        with translate_errors(self.name, "`validate` failed", "GRAPH_ERROR_GENERAL"):
            target = device.config
            return verdict(self.plugin, self.capabilities, view, target, settings)

    def checked(self, node: ir.Node) -> tuple[NodeView | None, list[Problem]]:
        """Return the view of a node, or None and every reason why it does not match its op.

        Nodes of packages that are not installed are opaque if the backend supports that.
        """
        if self.is_opaque(node):
            return opaque_node(node), []
        return checked_node(node, self.ops)

    def is_opaque(self, node: ir.Node) -> bool:
        """Return whether the backend receives a node without its op."""
        if not self.capabilities.opaque_ops:
            return False
        try:
            self.ops.package(node.package)
        except UnsupportedOpError:
            return True
        return False

    @api_call("device_get_platform_info")
    def get_platform_info(self) -> contract.Platform:
        """Return the backend's devices and libraries."""
        return platform_of(self)

    @api_call("device_create")
    def create_device(self, config: DeviceConfig | Mapping[str, Any] | None = None) -> Device:
        """Create a device handle.

        Raises:
            ConfigError: The config is wrong.
        """
        settings = typed_config(config, self.plugin.configs.device, "device config")
        return self._own(Device(self, settings))

    @api_call("context_create")
    def create_context(
        self,
        device: Device | None = None,
        config: ContextConfig | Mapping[str, Any] | None = None,
    ) -> Context:
        """Create a context.

        Args:
            device: By default the host.
            config: The context's config.

        Raises:
            BackendError: The device belongs to another backend, or the backend has no priorities.
            ConfigError: The config is wrong.
        """
        context = self._new_context(device, config)
        self.contexts.append(context)
        return context

    def _new_context(
        self, device: Device | None, config: ContextConfig | Mapping[str, Any] | None
    ) -> Context:
        device = self._own_device(device)
        settings = typed_config(config, self.plugin.configs.context, "context config")
        if Priority.of(settings.context_priority, "context config") is not Priority.NORMAL:
            self.require("priority", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        return Context(self, device, settings)

    @api_call("context_create_from_binary")
    def create_context_from_binary(
        self,
        binary: Binary,
        device: Device | None = None,
        config: ContextConfig | Mapping[str, Any] | None = None,
        profile: Profile | None = None,
        signal: Signal | None = None,
    ) -> Context:
        """Create a context with the graphs of a context binary, ready to run.

        Args:
            binary: Bytes from `Context.get_binary`, or the path of a file with them, which is
                mapped and must not be changed in place as long as the context lives.
            device: By default the host.
            config: The context's config.
            profile: Records the duration.
            signal: Stops the work, at its end at the latest.

        Raises:
            FrontendError: The file cannot be read.
            ContainerError: The bytes are not a context binary, are damaged, or do not suit the
                backend; every reason is listed.
            BackendError: The backend has no binaries, a graph to enable does not exist, a graph
                cannot be restored, or the work was stopped.
            ConfigError: The config is wrong.
        """
        self.require("caching", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        if profile is not None:
            profile.require_alive()
        start = time.perf_counter()
        record = None if profile is None else profile.recorder()
        context = self._new_context(device, config)
        file = None
        try:
            file = open_binary(binary, is_persistent=bool(context.config.is_persistent_binary))
            with controlled(signal) as control:
                context.restore(file, record, control)
        except BaseException:
            context.discard()
            raise
        self.contexts.append(context)
        if profile is not None and record is not None:
            name = "context binary"  # the same for a path and for its bytes
            profile.add_call(EventType.INIT, name, record, start, backend=self.name)
        return context

    @api_call("context_validate_binary")
    def validate_binary(self, binary: Binary, device: Device | None = None) -> Compatibility:
        """Return how well a context binary suits the backend; all its bytes are checked.

        Args:
            binary: As for `create_context_from_binary`.
            device: By default the host.

        Raises:
            FrontendError: The file cannot be read.
            ContainerError: The bytes are not a context binary, or are damaged; all damage is
                listed.
        """
        self.require("caching", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        file = open_binary(binary, is_persistent=True)
        file.verify()
        return compatibility_of(file, self, self._own_device(device))

    @api_call("context_get_binary_info")
    def get_binary_info(self, binary: Binary) -> ContextSummary:
        """Return what a context binary has: its graphs, their interfaces, and what it is for.

        Args:
            binary: As for `create_context_from_binary`; it may be for another backend.

        Raises:
            FrontendError: The file cannot be read.
            ContainerError: The bytes are not a context binary, or are damaged where they are read.
        """
        return summarize_context(open_binary(binary, is_persistent=True))

    @api_call("profile_create")
    def create_profile(self, level: int = ProfileLevel.BASIC) -> Profile:
        """Create a profile.

        Args:
            level: A `ProfileLevel`, or one of the backend's own levels, which have the detail of
                DETAILED and more.

        Raises:
            BackendError: The level is detailed, and the backend does not report nodes; or it is
                neither basic nor detailed, nor one of the backend's.
        """
        if level == ProfileLevel.DETAILED:
            self.require("watch", "PROFILE_ERROR_UNSUPPORTED")
        elif level != ProfileLevel.BASIC and level not in self.capabilities.profile_levels:
            own = ", ".join(map(str, self.capabilities.profile_levels)) or "none of its own"
            raise BackendError(
                f"backend '{self.name}' does not have the profiling level {level}",
                code="PROFILE_ERROR_UNSUPPORTED",
                hint=f"use BASIC (1) or DETAILED (2); the backend has {own}",
            )
        return self._own(Profile(self, level))

    @api_call("signal_create")
    def create_signal(
        self, kind: SignalKind = SignalKind.ABORT, timeout_us: int | None = None
    ) -> Signal:
        """Create a signal.

        Args:
            kind: ABORT, for `Signal.trigger`, or TIMEOUT.
            timeout_us: Microseconds that a call may take.

        Raises:
            BackendError: The backend cannot stop between steps.
        """
        self.require("cancel", "SIGNAL_ERROR_UNSUPPORTED")
        return self._own(Signal(kind, timeout_us))

    @api_call("backend_free")
    def free(self) -> None:
        """End the handle.

        Raises:
            BackendError: Contexts are still alive.
        """
        if self.contexts:
            raise BackendError(
                f"backend '{self.name}' still has {counted(len(self.contexts), 'context')}",
                code="BACKEND_ERROR_TERMINATE_FAILED",
                hint="free the contexts first, or use the handle in a `with` block",
            )
        for child in self._children:
            child.invalidate()
        with log_errors(f"closing backend '{self.name}'"):
            self.plugin.close()
        self.invalidate()

    def _own_device(self, device: Device | None) -> Device:
        """Return a device, by default the host.

        Raises:
            BackendError: It was freed, or belongs to another backend.
        """
        device = device or self.host
        device.require_alive()
        if device.backend is not self:
            raise BackendError(
                f"the device belongs to {device.backend.describe()}",
                code="CONTEXT_ERROR_INVALID_ARGUMENT",
            )
        return device

    def _own(self, child: H) -> H:
        self._children.add(child)
        return child

    def close(self) -> None:
        """Free its contexts and devices, and itself; a second call does nothing."""
        for context in tuple(self.contexts):
            context.free()
        if not self.is_freed:
            self.free()
