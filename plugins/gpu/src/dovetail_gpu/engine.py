"""The engine of a device: its context, memory and programs."""

from __future__ import annotations

from typing import Any

from dovetail_gpu.driver import Device, Reported, context_of, opencl
from dovetail_gpu.programs import Programs
from dovetail_gpu.space import DeviceSpace
from dovetail_gpu.tuning import Tuning


class ClEngine:
    """Runs programs on a device. Threads may share it.

    Args:
        device: The device.
        folder: Folder of compiled programs and tuning; None for that of the user's cache.
        rounds: Number of runs by which variants of kernels are chosen; 0 for rules alone.

    Attributes:
        device: The device.
        context: The context of pyopencl, which engines of a device share.
        space: Its memory.
        programs: Its programs.
        tuning: The variants of kernels that it prefers.
    """

    def __init__(self, device: Device, folder: str | None, rounds: int) -> None:
        self.device = device
        self.context = context_of(device)
        self.space = DeviceSpace(device, self.context, self.new_queue())
        self.programs = Programs(device, self.context, folder)
        self.tuning = Tuning(device, folder, rounds)

    def new_queue(self) -> Any:
        """Return a new queue of pyopencl, which runs commands in order and measures their times."""
        cl = opencl()
        with Reported(self.device, "create a queue"):
            return cl.CommandQueue(
                self.context, properties=cl.command_queue_properties.PROFILING_ENABLE
            )
