"""The OpenCL driver: devices, their limits, and errors in terms of the user.

All other modules reach pyopencl through `opencl()`, so that the plugin can be imported, listed and
examined where no driver is installed.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.errors import BackendError, ConfigError, PluginError

_INSTALL = (
    "install the OpenCL driver of the device's vendor, or one that computes on the processor: "
    "pip install 'pyopencl[pocl]'"
)
_UPDATE = (
    "install a driver that knows the processor, such as the PoCL of your system: "
    "apt-get install pocl-opencl-icd"
)
_MEMORY_CODES = frozenset({-4, -5, -61})  # object allocation, resources, buffer size
_LOST_CODES = frozenset({-2, -36, -9999})  # device not available, invalid queue, NVIDIA's fault


# The contexts of devices, which all sessions share: that of a GPU takes some hundred megabytes.
_CONTEXTS: dict[Any, Any] = {}
_GUARD = threading.Lock()
_COMPILING = threading.Lock()  # filters of warnings belong to the process, not to a thread


class _Process:
    """Use of the driver by this process.

    The threads of a driver do not exist in a forked process: a call would wait for them for ever.

    Attributes:
        is_used: Whether the driver was called.
        is_forked: Whether the process was forked after that.
    """

    def __init__(self) -> None:
        self.is_used = self.is_forked = False
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.is_forked = self.is_used


_PROCESS = _Process()


def opencl() -> Any:
    """Return the module `pyopencl`.

    Raises:
        PluginError: It cannot be imported.
        BackendError: The process was forked from one that used OpenCL.
    """
    if _PROCESS.is_forked:
        raise BackendError(
            "OpenCL cannot be used: the process was forked from one that had used it",
            hint="start processes by `spawn`, or fork before the first session on the backend",
        )
    return _module()


@functools.cache
def _module() -> Any:
    try:
        import pyopencl
    except (ImportError, OSError) as error:
        raise PluginError(
            f"pyopencl cannot be imported: {error}",
            hint="pip install pyopencl, and an OpenCL driver: pip install 'pyopencl[pocl]'",
        ) from error
    return pyopencl


@dataclass(frozen=True, slots=True)
class Device:
    """An OpenCL device.

    Attributes:
        handle: The device of pyopencl.
        platform: Name of its platform: of the driver.
        name: Its name.
        version: Version of the driver.
        is_cpu: Whether it is the host's processor.
        units: Number of its compute units.
        group_size: Maximum number of work items in a work group.
        local_bytes: Local memory of a work group.
        global_bytes: Its memory.
        max_bytes: Maximum size of one buffer.
        alignment: Alignment of buffers, in bytes.
        vector_width: Number of floats in a vector register; 1 if it has none.
        is_unified: Whether it uses the host's memory.
        has_half: Whether it computes in half precision (`cl_khr_fp16`).
        divides_exactly: Whether it can round quotients correctly, which a program has to ask for.
    """

    handle: Any
    platform: str
    name: str
    version: str
    is_cpu: bool
    units: int
    group_size: int
    local_bytes: int
    global_bytes: int
    max_bytes: int
    alignment: int
    vector_width: int
    is_unified: bool
    has_half: bool
    divides_exactly: bool

    @classmethod
    def of(cls, platform: Any, handle: Any) -> Device:
        """Return a device of pyopencl with its facts."""
        return cls(
            handle,
            platform.name.strip(),
            handle.name.strip(),
            f"{handle.version.strip()}, driver {handle.driver_version.strip()}",
            bool(handle.type & opencl().device_type.CPU),
            handle.max_compute_units,
            handle.max_work_group_size,
            handle.local_mem_size,
            handle.global_mem_size,
            handle.max_mem_alloc_size,
            max(64, handle.mem_base_addr_align // 8),
            handle.native_vector_width_float,
            bool(handle.host_unified_memory),
            "cl_khr_fp16" in handle.extensions.split(),
            bool(handle.single_fp_config & opencl().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT),
        )

    @property
    def key(self) -> str:
        """Text that devices share for which compiled programs and tuning are the same."""
        return f"{self.platform}/{self.name}/{self.version}"

    def __str__(self) -> str:
        return f"{self.name} ({self.platform})"


def devices() -> tuple[Device, ...]:
    """Return all usable devices, GPUs and accelerators first.

    Raises:
        PluginError: There is no pyopencl, driver or usable device.
    """
    cl = opencl()
    _PROCESS.is_used = True
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise PluginError(f"no OpenCL driver was found ({error})", hint=_INSTALL) from error
    found = []
    for platform in platforms:
        try:
            found += [Device.of(platform, handle) for handle in platform.get_devices()]
        except cl.Error:  # a driver without a device
            continue
    if not found:
        names = ", ".join(p.name.strip() for p in platforms) or "none"
        raise PluginError(f"no OpenCL device was found; drivers: {names}", hint=_INSTALL)
    faults = {device: fault for device in found if (fault := _fault(device))}
    if len(faults) == len(found):
        named = "; ".join(f"{device}: {fault}" for device, fault in faults.items())
        raise PluginError(f"no OpenCL device can be used: {named}", hint=_UPDATE)
    return tuple(sorted((d for d in found if d not in faults), key=lambda d: d.is_cpu))


@functools.cache
def _fault(device: Device) -> str:
    """Return why a device cannot be used; empty if nothing is known.

    The compiler of a driver for processors may be older than the processor, and then compile
    nothing at all, as PoCL 3.0 does on Zen 5. Drivers of other devices are not asked, which might
    take long.
    """
    if not device.is_cpu:
        return ""
    cl = opencl()
    try:
        built(cl.Program(context_of(device), "__kernel void f(__global int *x) { x[0] = 1; }"))
    except (cl.RuntimeError, BackendError) as error:
        cause = next((line for line in str(error).splitlines() if "error:" in line), str(error))
        return f"the driver compiles no kernel ({cause.strip()})"
    return ""


def choose_device(wanted: str | None) -> Device:
    """Return a device.

    Args:
        wanted: Its number in the list of devices, or part of the name of device or platform, in any
            case; None is the first.

    Raises:
        PluginError: There is no device.
        ConfigError: There is no such device.
    """
    found = devices()
    if wanted is None:
        return found[0]
    if wanted.isdecimal() and int(wanted) < len(found):
        return found[int(wanted)]
    text = wanted.lower()
    for device in found:
        if text and (text in device.name.lower() or text in device.platform.lower()):
            return device
    names = "; ".join(f"{i}: {device}" for i, device in enumerate(found))
    raise ConfigError(
        f"no OpenCL device matches '{wanted}'",
        where="option device",
        hint=f"set the option device to a number or part of a name: {names}",
    )


def context_of(device: Device) -> Any:
    """Return the context of pyopencl for a device, a new one if the device was lost.

    Raises:
        BackendError: The driver opens none.
    """
    with _GUARD, Reported(device, "open a context"):
        if device.handle not in _CONTEXTS:
            _CONTEXTS[device.handle] = opencl().Context([device.handle])
        return _CONTEXTS[device.handle]


def built(program: Any, options: Sequence[str] = ()) -> Any:
    """Return a program of pyopencl after it is compiled; the compiler's remarks are left out.

    Programs are kept in a cache of our own: that of pyopencl unpickles what it reads.

    Raises:
        pyopencl.RuntimeError: The driver does not compile it.
    """
    with _COMPILING, warnings.catch_warnings():
        warnings.simplefilter("ignore", opencl().CompilerWarning)
        return program.build(list(options), cache_dir=False)


class Reported:
    """A context in which errors of the driver are a `BackendError` that names the device.

    It is not a generator, which would cost a small network a microsecond each time.

    Args:
        device: The device.
        action: What failed, as in `run the graph`.
    """

    __slots__ = ("_action", "_device")

    def __init__(self, device: Device, action: str) -> None:
        self._device, self._action = device, action

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Translate an error of the driver."""
        if error is not None and isinstance(error, opencl().Error):
            raise translated(self._device, self._action, error) from error


def translated(device: Device, action: str, error: Any) -> BackendError:
    """Return an error of the driver as a `BackendError`; see `Reported`."""
    if isinstance(error, opencl().MemoryError) or error.code in _MEMORY_CODES:
        return _out_of_memory(device, action, error)
    if error.code in _LOST_CODES:
        _CONTEXTS.pop(device.handle, None)
        return BackendError(
            f"{device} was lost: it cannot {action} ({error})",
            hint="free the session and create another; see the driver's log for the cause",
        )
    return BackendError(f"{device} cannot {action}: {error}")


def _out_of_memory(device: Device, action: str, error: Exception) -> BackendError:
    total, most = device.global_bytes >> 20, device.max_bytes >> 20
    return BackendError(
        f"{device} has not enough memory to {action}: it has {total} MB, at most {most} MB in one "
        f"buffer ({error})",
        hint="use a smaller batch or precision_mode fp16, or free other sessions on the device",
    )
