"""The engine of a device: its context, queue, memory and programs.

Kernels are functions of a call alone. They reach the engine for which a graph is prepared, and the
graph's settings, by `current()`.
"""

from __future__ import annotations

import threading
from typing import Any

from dovetail_gpu.driver import Device, opencl, reported
from dovetail_gpu.options import GpuGraph, PrecisionMode
from dovetail_gpu.programs import Programs
from dovetail_gpu.space import DeviceSpace
from dovetail_gpu.tuning import Tuning


class ClEngine:
    """Runs programs on a device. Threads may share it.

    Args:
        device: The device.
        folder: Folder of compiled programs and tuning; None for that of the user's cache.
        measures: Whether variants of kernels are chosen by measurement.

    Attributes:
        device: The device.
        context: The context of pyopencl.
        queue: Its queue: commands run in order.
        space: Its memory.
        programs: Its programs.
        tuning: The variants of kernels that it prefers.
    """

    def __init__(self, device: Device, folder: str | None, *, measures: bool) -> None:
        cl = opencl()
        self.device = device
        with reported(device, "open a context"):
            self.context = cl.Context([device.handle])
            self.queue = cl.CommandQueue(
                self.context, properties=cl.command_queue_properties.PROFILING_ENABLE
            )
        self.space = DeviceSpace(device, self.context, self.queue)
        self.programs = Programs(device, self.context, folder)
        self.tuning = Tuning(device, folder, measures=measures)
        self._events = threading.local()

    def enqueue(self, kernel: Any, size: tuple[int, ...], group: tuple[int, ...] | None) -> None:
        """Begin to run a kernel."""
        self._events.last = opencl().enqueue_nd_range_kernel(self.queue, kernel, size, group)

    def finish(self) -> None:
        """Wait for all that was begun.

        Raises:
            BackendError: It failed.
        """
        with reported(self.device, "run the graph"):
            self.queue.finish()

    def settle(self) -> float | None:
        """Wait for all that was begun; see `PlanPrepared.settle`."""
        event = getattr(self._events, "last", None)
        self._events.last = None
        self.finish()
        if event is None:
            return None
        return float(event.profile.end - event.profile.start) / 1e3


class Computing:
    """Makes an engine and settings the current ones; waits for the engine at the end.

    It can be entered again, and by several threads.

    Attributes:
        engine: The engine.
        config: Settings of the graph.
    """

    def __init__(self, engine: ClEngine, config: GpuGraph) -> None:
        self.engine, self.config = engine, config

    def __enter__(self) -> None:
        _CURRENT.stack = [*getattr(_CURRENT, "stack", ()), self]

    def __exit__(self, *_: object) -> None:
        _CURRENT.stack = _CURRENT.stack[:-1]
        self.engine.finish()

    def stores_half(self, *, given: bool) -> bool:
        """Return whether a tensor's real numbers are stored in half precision.

        Args:
            given: Whether the tensor's type in the graph is half precision.
        """
        mode = self.config.precision_mode
        return given if mode is PrecisionMode.USER_PROVIDED else mode is not PrecisionMode.FP32


_CURRENT = threading.local()


def current() -> Computing:
    """Return engine and settings of the graph that is prepared in this thread."""
    stack: list[Computing] = getattr(_CURRENT, "stack", [])
    if not stack:
        raise AssertionError("no graph is prepared in this thread")
    return stack[-1]
