"""A fake device: memory of its own, and a thread that runs commands in order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec


@dataclass(eq=False)
class Block:
    """Memory of a device; as a `Token`, what an application has registered."""

    device: FakeDevice
    stored: bytes

    def download(self, spec: Spec) -> Array:
        assert self in self.device.live, "the memory was released"
        return np.frombuffer(self.stored, spec.dtype.storage).reshape(spec.shape)

    def release(self) -> None:
        self.device.live.remove(self)


class FakeDevice:
    """A device.

    Attributes:
        live: Its blocks that are not released.
    """

    def __init__(self) -> None:
        self.live: set[Block] = set()
        self._commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="device", daemon=True)
        self._thread.start()

    def upload(self, array: Array) -> Block:
        block = Block(self, array.tobytes())
        self.live.add(block)
        return block

    def enqueue(self, command: Callable[[], None]) -> None:
        self._commands.put(command)

    def close(self) -> None:
        """Run the commands that wait, then end the thread."""
        self._commands.put(None)
        self._thread.join(20)

    def _work(self) -> None:
        while (command := self._commands.get()) is not None:
            command()
            del command  # and the arrays that it holds
