"""The end of resources: `with` blocks that close them, and finalizers."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from dovetail.ir import Array


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


# Arrays are unknown to the garbage collector: an anchor is dropped with its last reference.
Anchor = Array


def anchor() -> Anchor:
    """Return an object whose end calls a finalizer."""
    return np.empty(0, np.uint8)


class Finalizer(weakref.ref[Anchor]):
    """Calls a function once: when it is called, or when the last reference to an anchor is dropped.

    A resource may be used in a `__del__` method of the application. So nothing is called at the end
    of the process, and in a cycle that is collected, the function is called after all `__del__`
    methods of the cycle. `weakref.finalize` alone calls it before them, and takes twice as long to
    create: a network has thousands.

    Args:
        anchor: A result of `anchor`, which the owner of the resource keeps.
        function: Releases the resource.
        resource: Its argument.
    """

    __slots__ = ("_function", "_resource")
    _function: Callable[[Any], object]
    _resource: Any

    def __new__(cls, anchor: Anchor, function: Callable[[Any], object], resource: Any) -> Self:
        """Create it; it is kept until the function is called."""
        made = super().__new__(cls, anchor, cls.__call__)
        made._function, made._resource = function, resource
        _PENDING[id(made)] = made
        return made

    def __init__(self, *_: object) -> None:  # that of a reference takes other arguments
        pass

    @property
    def alive(self) -> bool:
        """True until the function is called."""
        return id(self) in _PENDING

    def __call__(self) -> None:
        """Call the function, unless that was done before."""
        if _PENDING.pop(id(self), None) is not None:
            self._function(self._resource)


# Finalizers that have not been called, by identity; nothing is called without one.
_PENDING: dict[int, Finalizer] = {}
atexit.register(_PENDING.clear)
