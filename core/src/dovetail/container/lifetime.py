"""The end of resources: `with` blocks that close them, and finalizers."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from typing import Any, Self

import numpy as np


class Closing:
    """A context manager that is closed at the end of its `with` block."""

    __slots__ = ()

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Finalizer:
    """Calls a function once: when it is called, or when the last reference to it is dropped.

    A resource may be used in a `__del__` method of the application. So nothing is called at the end
    of the process, and in a cycle that is collected, the function is called after all `__del__`
    methods of the cycle. `weakref.finalize` alone calls it before them, and takes twice as long to
    create: a network has thousands.

    Args:
        function: Releases the resource.
        arguments: Its arguments.
    """

    __slots__ = ("_anchor", "_reference")

    def __init__(self, function: Callable[..., object], *arguments: Any) -> None:
        # Arrays are unknown to the garbage collector: this one is dropped with its last reference.
        self._anchor = np.empty(0, np.uint8)
        self._reference = reference = _Reference(self._anchor, _release)
        reference.function, reference.arguments = function, arguments
        _PENDING[id(reference)] = reference

    @property
    def alive(self) -> bool:
        """True until the function is called."""
        return id(self._reference) in _PENDING

    def __call__(self) -> None:
        """Call the function, unless that was done before."""
        _release(self._reference)


class _Reference(weakref.ref[Any]):
    __slots__ = ("arguments", "function")

    function: Callable[..., object]
    arguments: tuple[Any, ...]


# References of finalizers that have not been called, by identity; nothing is called without one.
_PENDING: dict[int, _Reference] = {}
atexit.register(_PENDING.clear)


def _release(reference: weakref.ref[Any]) -> None:
    """Call the function of a finalizer, unless that was done before."""
    if (pending := _PENDING.pop(id(reference), None)) is not None:
        pending.function(*pending.arguments)
