"""Finalizers of foreign resources, such as descriptors of files."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np


class Finalizer:
    """Calls a function once: when it is called, or when the last reference to it is dropped.

    A resource may be used in a `__del__` method of the application. So nothing is called at the end
    of the process, and in a cycle that is collected, the function is called after all `__del__`
    methods of the cycle. `weakref.finalize` alone calls it before them.

    Args:
        function: Releases the resource.
        arguments: Its arguments.
    """

    __slots__ = ("_anchor", "_finalize")

    def __init__(self, function: Callable[..., object], *arguments: Any) -> None:
        # Arrays are unknown to the garbage collector: this one is dropped with its last reference.
        self._anchor = np.empty(0, np.uint8)
        self._finalize = weakref.finalize(self._anchor, function, *arguments)
        self._finalize.atexit = False

    @property
    def alive(self) -> bool:
        """True until the function is called."""
        return self._finalize.alive

    def __call__(self) -> None:
        """Call the function, unless that was done before."""
        self._finalize()
