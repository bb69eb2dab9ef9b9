"""The memory of a device: blocks, and their parts as steps receive them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail_gpu.computing import Computing, finish_current
from dovetail_gpu.driver import Device, opencl, reported

_TRIED_BYTES = 1 << 16


class DeviceBlock:
    """A buffer of a device; see `Block`.

    Attributes:
        buffer: The buffer of pyopencl.
        nbytes: Its size.
    """

    def __init__(self, space: DeviceSpace, buffer: Any, nbytes: int) -> None:
        self.buffer, self.nbytes = buffer, nbytes
        self._space = space

    def to_host(self) -> Array:
        """Return a copy of its bytes, uint8 (nbytes,), after all that this thread has begun."""
        finish_current()
        found = np.empty(self.nbytes, np.uint8)
        self._space.download(self.buffer, 0, found, self._space.queue)
        return found


class DeviceSpace:
    """The memory of a device; see `Space`.

    Contents that no run writes, such as weights, go through its own queue.

    Args:
        device: The device.
        context: The context of pyopencl.
        queue: A queue, which runs commands in order.
    """

    def __init__(self, device: Device, context: Any, queue: Any) -> None:
        self.device = device
        self._context, self.queue = context, queue
        # a kernel receives a pointer even where there is nothing to read
        self._least = 64

    @property
    def name(self) -> str:
        """See `Space`."""
        return f"opencl/{self.device.key}"

    @property
    def alignment(self) -> int:
        """See `Space`."""
        return self.device.alignment

    def allocate(self, nbytes: int) -> DeviceBlock:
        """Return a new block; see `Space`.

        Raises:
            BackendError: The device has not so much memory.
        """
        cl = opencl()
        with reported(self.device, f"allocate {nbytes} bytes"):
            buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(nbytes, self._least))
        return DeviceBlock(self, buffer, nbytes)

    def write(self, block: Any, array: Array) -> None:
        """Copy an array into a block; see `Space`."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if flat.nbytes:
            with reported(self.device, f"receive {flat.nbytes} bytes"):
                opencl().enqueue_copy(self.queue, block.buffer, flat, is_blocking=True)

    def part(self, block: Any, offset: int, nbytes: int) -> tuple[Any, int]:
        """Return buffer and offset in bytes; see `Space`."""
        return block.buffer, offset

    @functools.cached_property
    def reads_host(self) -> bool:
        """True if kernels read arrays of the application as they are, whatever it writes there.

        That is so on processors. The standard lets a driver copy such arrays, so it is tried.
        """
        if not (self.device.is_cpu and self.device.is_unified):
            return False
        array, found = np.zeros(_TRIED_BYTES, np.uint8), np.empty(_TRIED_BYTES, np.uint8)
        with reported(self.device, "read an array of the host"):
            block = self.shared(array)
            for value in (1, 2):
                array.fill(value)
                self.download(block.buffer, 0, found, self.queue)
                if not np.array_equal(found, array):
                    return False
        return True

    def shared(self, given: Any) -> DeviceBlock:
        """Return an array of the application as a block that is only read; see `Space`."""
        flags = opencl().mem_flags
        with reported(self.device, f"use {given.nbytes} bytes of the host"):
            buffer = opencl().Buffer(
                self._context, flags.READ_ONLY | flags.USE_HOST_PTR, hostbuf=given
            )
        return DeviceBlock(self, buffer, given.nbytes)

    def upload(self, buffer: Any, offset: int, array: Array, computing: Computing) -> None:
        """Begin to copy a contiguous array, which does not change before the end, into a buffer."""
        if array.nbytes:
            with reported(self.device, f"receive {array.nbytes} bytes"):
                computing.keep(
                    opencl().enqueue_copy(
                        computing.queue, buffer, array, dst_offset=offset, is_blocking=False
                    )
                )

    def download(self, buffer: Any, offset: int, array: Array, queue: Any) -> None:
        """Copy part of a buffer into a contiguous array, after all that was enqueued before."""
        if array.nbytes:
            with reported(self.device, f"return {array.nbytes} bytes"):
                opencl().enqueue_copy(queue, array, buffer, src_offset=offset, is_blocking=True)
