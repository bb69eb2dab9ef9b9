"""Devices of a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.errors import BackendError, counted
from dovetail.runtime import contract
from dovetail.runtime.config import DeviceConfig
from dovetail.runtime.handle import Handle, api_call
from dovetail.runtime.plugin_errors import translate_errors
from dovetail.runtime.queue import ExecutionQueue

if TYPE_CHECKING:  # a device belongs to a backend, which imports it
    from dovetail.runtime.backend import Backend


class Device(Handle):
    """A device of a backend, with the queue of its asynchronous executions."""

    kind = "device"
    invalid_code = "DEVICE_ERROR_INVALID_HANDLE"

    def __init__(self, backend: Backend, config: DeviceConfig) -> None:
        super().__init__()
        self.backend = backend
        self.config = config
        self.queue = ExecutionQueue(f"dovetail-{backend.name}-{self.id}")

    @api_call("device_get_info")
    def get_info(self) -> contract.Platform:
        """Return what the handle gives access to: the backend's devices and libraries."""
        return platform_of(self.backend)

    @api_call("device_free")
    def free(self) -> None:
        """End the handle.

        Raises:
            BackendError: A context still uses the device.
        """
        users = [c for c in self.backend.contexts if c.device is self]
        if users:
            raise BackendError(
                f"the device is still used by {counted(len(users), 'context')}",
                code="DEVICE_ERROR_ASSOCIATED_TO_CONTEXT",
                hint="free the contexts first",
            )
        self.invalidate()


def platform_of(backend: Backend) -> contract.Platform:
    """Return a backend's devices and libraries.

    Raises:
        BackendError: The backend cannot tell.
    """
    with translate_errors(backend.name, "`platform` failed", "DEVICE_ERROR_HARDWARE_UNAVAILABLE"):
        return backend.plugin.platform()
