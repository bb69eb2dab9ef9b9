"""Python objects that own objects of oneDNN.

An object is freed when its wrapper is closed or, at the latest, when the last reference to the
wrapper is dropped, and never twice. At the end of the process nothing is freed: `__del__` methods
and daemon threads may still run graphs.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from ctypes import c_void_p
from typing import Any

from dovetail.container import Closing, Finalizer, anchor
from dovetail_onednn._api import CPU, IN_ORDER
from dovetail_onednn._library import Library, library
from dovetail_onednn.errors import failure
from dovetail_onednn.fork import GENERATION


class Handle(Closing):
    """The owner of one object of the library; foreign functions accept it as that object.

    Functions are called with handles, never with bare pointers: a handle lives until the call
    returns. Only executions use pointers, in `BoundPrimitive`, which keeps their owners.

    Args:
        kind: Name of the function that frees it, without `_destroy`.
        address: Address of the object.
    """

    __slots__ = ("__weakref__", "_anchor", "_as_parameter_", "_free")  # ctypes reads the third one

    def __init__(self, kind: str, address: int) -> None:
        self._as_parameter_ = address
        # nothing can be done about a failure, so the status is ignored
        self._anchor = anchor()
        self._free = Finalizer(self._anchor, library().functions[f"{kind}_destroy"], address)

    @property
    def is_open(self) -> bool:
        """True until the object is freed."""
        return self._free.alive

    def close(self) -> None:
        """Free the object, unless that was done before."""
        self._free()
        self._as_parameter_ = 0  # the library rejects null, instead of reading freed bytes

    @property
    def address(self) -> int:
        """Address of the object; 0 after `close`."""
        return self._as_parameter_


def make(function: str, *arguments: Any, doing: str | Callable[[], str]) -> int:
    """Call a function that returns a new object through its first argument.

    Args:
        function: Name of the function, without the prefix.
        arguments: All arguments but the first.
        doing: What creates the object, for the error, or a function that returns it.

    Returns:
        The address of the object.

    Raises:
        BackendError: The function failed.
    """
    pointer = c_void_p()
    if status := library().functions[function](ctypes.byref(pointer), *arguments):
        raise failure(status, doing if isinstance(doing, str) else doing())
    return pointer.value or 0


class Engine(Handle):
    """oneDNN's object for the processor."""

    __slots__ = ("library",)

    def __init__(self) -> None:
        self.library: Library = library()
        GENERATION.watch(self.library)
        super().__init__("engine", make("engine_create", CPU, 0, doing="creating the CPU engine"))


class Stream(Handle):
    """A queue of executions; not for two threads at once."""

    __slots__ = ()

    def __init__(self) -> None:
        pointer = make("stream_create", engine(), IN_ORDER, doing="creating a stream")
        super().__init__("stream", pointer)


_STARTING = threading.Lock()
_STARTED: list[Engine] = []  # read without the lock, which would take most of a call's time


def engine() -> Engine:
    """Return the one engine of the process.

    Raises:
        PluginError: No usable oneDNN is installed.
    """
    if not _STARTED:
        with _STARTING:  # two threads must not create two
            if not _STARTED:
                _STARTED.append(Engine())
    return _STARTED[0]
