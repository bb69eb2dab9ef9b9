"""Bound primitives: executions on memories, with threads and Python's lock."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from ctypes import c_void_p
from typing import TYPE_CHECKING

from dovetail.errors import BackendError
from dovetail_onednn._api import ExecArg
from dovetail_onednn._library import library
from dovetail_onednn.descriptors import Memory
from dovetail_onednn.errors import failure
from dovetail_onednn.fork import GENERATION
from dovetail_onednn.handles import Stream
from dovetail_onednn.threads import ACTIVE, TEAM, ReleaseGil, set_threads

if TYPE_CHECKING:  # primitives create executions
    from dovetail_onednn.primitives import Primitive

# A longer call lets other Python threads run: a tenth of the interval after which a busy thread
# releases the interpreter. So many calls are timed.
_LONG_S = 0.5e-3
_TRIALS = 3


class BoundPrimitive:
    """A primitive with its memories and a stream, which can be called any number of times.

    Not for two threads at once. The bytes of the memories must outlive it.
    """

    __slots__ = (
        "_alone",
        "_fewer",
        "_generation",
        "_get_threads",
        "_has_fewer",
        "_kept",
        "_memories",
        "_primitive",
        "_release_gil",
        "_set_threads",
        "_shared",
        "_shortest",
        "_threads",
        "_trials",
    )

    def __init__(
        self,
        primitive: Primitive,
        memories: dict[int, Memory],
        release_gil: ReleaseGil,
        kept: object = None,
    ) -> None:
        self._memories = memories
        stream = Stream()
        arguments = (ExecArg * len(memories))()
        for slot, (arg, memory) in zip(arguments, memories.items(), strict=True):
            slot.arg, slot.memory = arg, memory.address
        self._primitive = primitive
        self._threads = primitive.threads
        self._fewer: BoundPrimitive | None = None
        self._has_fewer = primitive.has_fewer
        self._release_gil = release_gil
        found = library()
        self._get_threads = found.get_threads or int  # without OpenMP there is no number to change
        self._set_threads = found.set_threads or set_threads
        self._kept = (stream, kept)
        self._generation = primitive.generation
        call = (
            c_void_p.from_param(primitive.address),
            c_void_p.from_param(stream.address),
            len(memories),
            ctypes.byref(arguments),
        )
        functions = found.functions
        held, released = (
            functools.partial(functions[name], *call)
            for name in ("primitive_execute_held", "primitive_execute")
        )
        # used while no other session computes, and while one does
        self._alone = released if release_gil is ReleaseGil.ALWAYS else held
        self._shared = held if release_gil is ReleaseGil.NEVER else released
        self._trials = _TRIALS if release_gil is ReleaseGil.AUTO else 0
        self._shortest = float("inf")

    def memory(self, arg: int) -> Memory:
        """Return the memory of an argument."""
        return self._memories[arg]

    def __call__(self) -> None:
        """Execute it and wait: a CPU stream runs nothing in the background.

        Raises:
            BackendError: It failed, or was prepared before the process was forked; with the
                primitive's description.
        """
        if self._generation != GENERATION.number:
            raise BackendError(
                "the process was forked after this was prepared; a fork copies no threads",
                where=self._primitive.text,
                hint="prepare it in the new process, or use the start method 'spawn'",
            )
        own = TEAM.own
        if self._has_fewer and TEAM.is_reduced and (fewer := self._for_fewer_threads()):
            fewer()
            return
        if self._get_threads() != (wanted := self._threads or own):
            (self._set_threads if own else set_threads)(wanted)
        execute = self._alone if len(ACTIVE) < 2 else self._shared
        status = self._timed(execute) if self._trials else execute()
        if status:
            raise failure(status, f"executing {self._primitive.text}")

    def _for_fewer_threads(self) -> BoundPrimitive | None:
        """Return the call of the primitive for fewer threads on the same memories, or None."""
        if self._fewer is None:
            descs = {arg: memory.desc for arg, memory in self._memories.items()}
            primitive = self._primitive.with_fewer_threads(descs)
            self._has_fewer = primitive is not None
            if primitive is not None:
                self._fewer = BoundPrimitive(
                    primitive, self._memories, self._release_gil, self._kept
                )
        return self._fewer

    def _timed(self, execute: Callable[[], int]) -> int:
        """Execute it and measure the time; the shortest of a few decides whether it is long."""
        start = time.perf_counter()
        status = execute()
        self._shortest = min(self._shortest, time.perf_counter() - start)
        self._trials -= 1
        if not self._trials and self._shortest > _LONG_S:
            self._alone = self._shared
        return status
