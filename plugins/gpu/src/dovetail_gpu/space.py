"""The memory of a device: blocks, and their parts as steps receive them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail_gpu.computing import Computing, finish_current
from dovetail_gpu.driver import Device, Reported, opencl

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

    @functools.cached_property
    def host(self) -> Array | None:
        """Its bytes as an array of the host, uint8 (nbytes,); None if they are the device's alone.

        It is used while no command that does is in progress.
        """
        return self._space.mapped(self) if self._space.maps_blocks else None

    def to_host(self) -> Array:
        """Return a copy of its bytes, uint8 (nbytes,), after all that this thread has begun."""
        finish_current()
        found = np.empty(self.nbytes, np.uint8)
        self._space.read(self.buffer, found)
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
        with Reported(self.device, f"allocate {nbytes} bytes"):
            buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(nbytes, self._least))
        return DeviceBlock(self, buffer, nbytes)

    def write(self, block: Any, array: Array) -> None:
        """Copy an array into a block; see `Space`."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if flat.nbytes:
            with Reported(self.device, f"receive {flat.nbytes} bytes"):
                opencl().enqueue_copy(self.queue, block.buffer, flat, is_blocking=True)

    def part(self, block: Any, offset: int, nbytes: int) -> tuple[DeviceBlock, int]:
        """Return the block and the offset in bytes; see `Space`."""
        return block, offset

    @functools.cached_property
    def reads_host(self) -> bool:
        """True if kernels read arrays of the application as they are, whatever it writes there.

        That is so on processors. The standard lets a driver copy such arrays, so it is tried.
        """
        if not (self.device.is_cpu and self.device.is_unified):
            return False
        array, found = np.zeros(_TRIED_BYTES, np.uint8), np.empty(_TRIED_BYTES, np.uint8)
        with Reported(self.device, "read an array of the host"):
            block = self.shared(array)
            for value in (1, 2):
                array.fill(value)
                self.read(block.buffer, found)
                if not np.array_equal(found, array):
                    return False
        return True

    @functools.cached_property
    def maps_blocks(self) -> bool:
        """True if host and device see what the other writes to a block that stays mapped.

        That is so on processors, and tried like `reads_host`. Copies of small tensors take longer
        as commands than the work on them.
        """
        if not (self.device.is_cpu and self.device.is_unified):
            return False
        block, found = self.allocate(_TRIED_BYTES), np.empty(_TRIED_BYTES, np.uint8)
        host = self.mapped(block)
        for value in (1, 2):
            host.fill(value)
            self.read(block.buffer, found)
            self.write(block, found + 2)
            if not ((found == value).all() and (host == value + 2).all()):
                return False
        return True

    def mapped(self, block: DeviceBlock) -> Array:
        """Return a block's bytes as an array of the host, while a driver allows it."""
        cl = opencl()
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        with Reported(self.device, f"map {block.nbytes} bytes"):
            found, _ = cl.enqueue_map_buffer(
                self.queue, block.buffer, flags, 0, (block.nbytes,), np.uint8, is_blocking=True
            )
        array: Array = found
        return array

    def shared(self, given: Any) -> DeviceBlock:
        """Return an array of the application as a block that is only read; see `Space`."""
        flags = opencl().mem_flags
        with Reported(self.device, f"use {given.nbytes} bytes of the host"):
            buffer = opencl().Buffer(
                self._context, flags.READ_ONLY | flags.USE_HOST_PTR, hostbuf=given
            )
        return DeviceBlock(self, buffer, given.nbytes)

    def read(self, buffer: Any, array: Array) -> None:
        """Copy the first bytes of a buffer into a contiguous array."""
        if array.nbytes:
            with Reported(self.device, f"return {array.nbytes} bytes"):
                opencl().enqueue_copy(self.queue, array, buffer, is_blocking=True)

    def upload(self, array: Array, block: DeviceBlock, offset: int, computing: Computing) -> None:
        """Begin to copy an array into a block; see `Computing.send`."""
        if array.nbytes:
            with Reported(self.device, f"receive {array.nbytes} bytes"):
                computing.send(array.reshape(-1).view(np.uint8), block, offset)

    def download(self, block: DeviceBlock, offset: int, array: Array, computing: Computing) -> None:
        """Copy part of a block into an array; see `Computing.receive`."""
        if array.nbytes:
            with Reported(self.device, f"return {array.nbytes} bytes"):
                computing.receive(array.reshape(-1).view(np.uint8), block, offset)
