"""Objects of oneDNN as Python objects that own them.

Each is freed when its wrapper is closed or, at the latest, when the last reference to the wrapper
goes: never later, and never twice.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from ctypes import c_void_p
from typing import Any, Self

from dovetail_onednn._api import CPU, IN_ORDER
from dovetail_onednn._library import Library, library
from dovetail_onednn.errors import check
from dovetail_onednn.fork import GENERATION


class Handle:
    """Owns one object of the library, and stands for it in calls of foreign functions.

    Calls are given handles, never bare pointers: a handle given lives until the call returns. Only
    executions are given pointers, by `BoundPrimitive`, which keeps what they belong to.

    Args:
        kind: Name of its destroying function, without `_destroy`.
        pointer: The object.
    """

    __slots__ = ("__weakref__", "_as_parameter_", "_free")  # ctypes knows the second one

    def __init__(self, kind: str, pointer: c_void_p) -> None:
        self._as_parameter_ = pointer
        # a failure to free has no remedy, so the status is not looked at
        self._free = weakref.finalize(self, library().functions[f"{kind}_destroy"], pointer)

    @property
    def is_open(self) -> bool:
        """Whether the object still exists."""
        return self._free.alive

    def close(self) -> None:
        """Free the object; once is enough, twice does no harm."""
        self._free()
        self._as_parameter_ = c_void_p()  # the library refuses it, where it would read freed bytes

    @property
    def address(self) -> int | None:
        """Where the object is; None after `close`."""
        return self._as_parameter_.value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make(function: str, *arguments: Any, doing: str) -> c_void_p:
    """Call a function that gives a new object through its first argument.

    Args:
        function: Its name without the prefix.
        arguments: All but the first.
        doing: What is made, for the error.

    Raises:
        BackendError: It failed.
    """
    pointer = c_void_p()
    check(library().functions[function](ctypes.byref(pointer), *arguments), doing)
    return pointer


class Engine(Handle):
    """The processor, as oneDNN sees it."""

    __slots__ = ("library",)

    def __init__(self) -> None:
        self.library: Library = library()
        GENERATION.watch(self.library)
        super().__init__("engine", make("engine_create", CPU, 0, doing="making the CPU engine"))


class Stream(Handle):
    """A queue of executions; not for two threads at once."""

    __slots__ = ()

    def __init__(self) -> None:
        made = make("stream_create", engine(), IN_ORDER, doing="making a stream")
        super().__init__("stream", made)


_STARTING = threading.Lock()


def engine() -> Engine:
    """Return the one engine of the process.

    Raises:
        PluginError: There is no usable oneDNN.
    """
    with _STARTING:
        return _engine()


_engine = functools.cache(Engine)
