"""Buffers between the application's memory and a graph's, and counts of copies through them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from dovetail.ir import Array, MemoryType
from dovetail.runtime.interface import Endpoint, Interface
from dovetail.runtime.measurements import Counter, EventUnit
from dovetail.runtime.memory import Memory


class Results:
    """The outputs of runs without arrays from the application; one run at a time.

    Small outputs are written to permanent arrays and copied for the application, since binding new
    arrays takes longer. Those of the memory type MEMHANDLE are allocated when a run needs them.

    Args:
        interface: Interface of the graph.
    """

    def __init__(self, interface: Interface) -> None:
        self._ends = interface.outputs
        self._kept: dict[str, Array] = {}
        self._missing = tuple(name for name, end in self._ends.items() if end.is_small)
        self._allocate([name for name in self._missing if not _is_registered(self._ends[name])])

    @property
    def nbytes(self) -> int:
        """Size of the permanent arrays."""
        return sum(array.nbytes for array in self._kept.values())

    @property
    def missing_bytes(self) -> int:
        """Size of the permanent arrays that the next run without arrays allocates."""
        return sum(self._ends[name].nbytes for name in self._missing)

    @property
    def copied(self) -> tuple[int, ...]:
        """Sizes of the outputs that are copied for the application."""
        return tuple(end.nbytes for end in self._ends.values() if end.is_small)

    def arrays(self) -> Mapping[str, Array]:
        """Return the arrays that a run writes, by tensor name."""
        if len(self._kept) == len(self._ends):
            return self._kept
        if self._missing:
            self._allocate(self._missing)
            return self.arrays()
        return {
            name: self._kept[name] if end.is_small else np.empty(end.shape, end.storage)
            for name, end in self._ends.items()
        }

    def taken(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the application's outputs after a run has written `arrays`."""
        taken = {} if arrays is self._kept else dict(arrays)
        for name, array in self._kept.items():
            taken[name] = array.copy()
        return taken

    def _allocate(self, names: Iterable[str]) -> None:
        made = {n: np.empty(self._ends[n].shape, self._ends[n].storage) for n in names}
        every = {**self._kept, **made}
        self._kept = {name: every[name] for name in self._ends if name in every}  # in their order
        self._missing = tuple(name for name in self._missing if name not in every)


class IoBuffers:
    """The buffers of a graph's inputs and outputs, and the copies that executions need.

    A device that cannot access the application's memory has a buffer for each input and output that
    it copies (`Prepared.io_buffers`). An emulated processor accesses registered memory only: its
    buffers are counted here, not allocated, since the emulator itself uses all memory directly.

    Args:
        interface: Interface of the graph.
        emulated: Whether a processor is emulated that copies what is not registered.

    Attributes:
        results: The outputs of runs without arrays from the application.
        awaits_raw: Whether `use` must be called for executions without a profile, too.
    """

    def __init__(self, interface: Interface, *, emulated: bool = False) -> None:
        self.results = Results(interface)
        self._outputs = interface.outputs
        self._emulated = emulated
        self._lock = threading.Lock()
        ends = {**interface.inputs, **interface.outputs} if emulated else {}
        self._sizes = {name: end.nbytes for name, end in ends.items()}
        self._missing = {name for name, end in ends.items() if _is_registered(end)}
        self.awaits_raw = bool(self._missing)
        present = self._sizes.keys() - self._missing
        self._present = sum(self._sizes[name] for name in present)

    def nbytes(self, copied: Mapping[str, int]) -> int:
        """Return the size of the buffers that the preparation has allocated.

        Args:
            copied: Sizes of the buffers of inputs and outputs that each execution copies, by name.
        """
        return self._present if self._emulated else sum(copied.values()) + self.results.nbytes

    def use(
        self,
        copied: Mapping[str, int],
        inputs: Mapping[str, object],
        outputs: Mapping[str, object] | None,
    ) -> tuple[Counter, ...]:
        """Return the counters of an execution, before it begins.

        Args:
            copied: As for `nbytes`.
            inputs: The application's inputs.
            outputs: Its outputs, if it gave any.
        """
        if self._emulated:
            return self._emulate(inputs, self._outputs if outputs is None else outputs)
        results = self.results
        strided = [
            array.nbytes
            for array in inputs.values()
            if isinstance(array, np.ndarray) and not array.flags.c_contiguous
        ]
        own = results.copied if outputs is None else ()
        allocated = results.missing_bytes if outputs is None else 0
        return _counters((*copied.values(), *strided, *own), allocated)

    def _emulate(
        self, inputs: Mapping[str, object], outputs: Mapping[str, object]
    ) -> tuple[Counter, ...]:
        given = (*inputs.items(), *outputs.items())
        raw = {n for n, buffer in given if n in self._sizes and not isinstance(buffer, Memory)}
        with self._lock:
            allocated = self._missing & raw
            self._missing -= raw
            self.awaits_raw = bool(self._missing)
        sizes = self._sizes
        return _counters([sizes[n] for n in raw], sum(sizes[n] for n in allocated))


def _is_registered(end: Endpoint) -> bool:
    return end.tensor.memory_type is MemoryType.MEMHANDLE


def _counters(copied: Collection[int], allocated: int) -> tuple[Counter, ...]:
    return (
        Counter("io_copies", len(copied)),
        Counter("io_copied_bytes", sum(copied), EventUnit.BYTES),
        Counter("io_buffer_bytes", allocated, EventUnit.BYTES),
    )
