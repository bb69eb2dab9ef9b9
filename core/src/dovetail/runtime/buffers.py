"""Checks of the application's buffers against a graph's inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail.errors import BackendError, Problem, suggest_name
from dovetail.ir import Array, DType, Graph, Shape, Tensor
from dovetail.runtime.memory import Memory

Buffer = Array | Memory

# Up to this size in bytes, copying an array is faster than binding another one (some 2 us).
_SMALL = 1 << 14


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An input or output of a graph, as the application sees it.

    Attributes:
        tensor: The tensor.
        shape: Its shape.
        storage: NumPy type of a stored element.
        is_float32: Whether stored elements are float32, so that they are the real values.
        is_small: Whether copying it is faster than binding another array.
    """

    tensor: Tensor
    shape: Shape
    storage: np.dtype[np.generic]
    is_float32: bool
    is_small: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Endpoint:
        """Create the endpoint of a tensor."""
        storage, is_float32 = tensor.dtype.storage, tensor.dtype is DType.FLOAT_32
        nbytes = math.prod(tensor.shape) * storage.itemsize
        return cls(tensor, tensor.shape, storage, is_float32, nbytes <= _SMALL)


@dataclass(frozen=True, slots=True)
class Interface:
    """The inputs and outputs of a graph, recorded when it is finalized.

    Attributes:
        graph: Name of the graph.
        inputs, outputs: Endpoints by tensor name.
        gives_real: Whether the stored values of all outputs are the real values.
    """

    graph: str
    inputs: Mapping[str, Endpoint]
    outputs: Mapping[str, Endpoint]
    gives_real: bool = field(init=False)

    def __post_init__(self) -> None:
        gives_real = all(end.is_float32 for end in self.outputs.values())
        object.__setattr__(self, "gives_real", gives_real)

    @classmethod
    def of(cls, graph: Graph) -> Interface:
        """Create the interface of a graph."""
        inputs, outputs = graph.inputs, graph.outputs
        return cls(
            graph.name,
            {t.name: Endpoint.of(t) for t in inputs},
            {t.name: Endpoint.of(t) for t in outputs},
        )


class Results:
    """The outputs of runs without arrays from the application; one run at a time.

    Small outputs are written to permanent arrays and copied for the application, since binding new
    arrays takes longer.

    Args:
        interface: Interface of the graph.
    """

    def __init__(self, interface: Interface) -> None:
        outputs = interface.outputs.items()
        empty = {name: np.empty(end.shape, end.storage) for name, end in outputs if end.is_small}
        self._kept: Mapping[str, Array] = empty
        self._ends = interface.outputs

    def arrays(self) -> Mapping[str, Array]:
        """Return the arrays that a run writes, by tensor name."""
        if len(self._kept) == len(self._ends):
            return self._kept
        return {
            name: self._kept[name] if end.is_small else np.empty(end.shape, end.storage)
            for name, end in self._ends.items()
        }

    def taken(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the application's outputs after a run has written `arrays`."""
        return {n: array.copy() if n in self._kept else array for n, array in arrays.items()}


def checked_buffers(
    interface: Interface, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer] | None
) -> tuple[dict[str, Array], dict[str, Array] | None]:
    """Return the arrays of a run: C-contiguous inputs, and outputs if any were given.

    Raises:
        BackendError: Names are unknown or missing, arrays do not match, or outputs cannot be
            written or share memory with an input or another output; every fault is listed.
    """
    given, faults = _matched("input", interface.inputs, inputs)
    taken: dict[str, Array] | None = None
    if outputs is not None:
        taken, mismatches = _matched("output", interface.outputs, outputs)
        faults += mismatches
        faults += [
            Problem("must be writable and C-contiguous", f"output '{name}'")
            for name, array in taken.items()
            if not array.flags.writeable or not array.flags.c_contiguous
        ]
        faults += _overlaps(given, taken)
    if faults:
        raise BackendError(
            "the buffers do not match the graph",
            code="GRAPH_ERROR_INVALID_TENSOR",
            where=f"graph '{interface.graph}'",
            problems=faults,
        )
    for name, array in given.items():
        if not array.flags.c_contiguous:
            given[name] = array.copy()
    return given, taken


def _overlaps(given: Mapping[str, Array], taken: Mapping[str, Array]) -> list[Problem]:
    """Return a problem for each output that shares memory with an input or another output."""
    named = [(f"output '{name}'", array) for name, array in taken.items()]
    others = [(f"input '{name}'", array) for name, array in given.items()]
    return [
        Problem(f"shares memory with {what}", where, "pass a separate array for each")
        for i, (where, array) in enumerate(named)
        for what, other in (*others, *named[:i])
        if np.may_share_memory(array, other)
    ]


def _matched(
    word: str, ends: Mapping[str, Endpoint], given: Mapping[str, Buffer]
) -> tuple[dict[str, Array], list[Problem]]:
    """Return the given arrays by name, and every reason why one does not match its endpoint."""
    faults: list[Problem] = []
    arrays: dict[str, Array] = {}
    for name, end in ends.items():
        buffer: object = given.get(name)
        if isinstance(buffer, Memory):
            buffer.require_alive()
            buffer = buffer.array
        if isinstance(buffer, np.ndarray):
            # a subclass (np.matrix, a masked array) computes differently
            array = arrays[name] = buffer if type(buffer) is np.ndarray else np.asarray(buffer)
            if array.shape != end.shape or array.dtype != end.storage:
                faults += _array_faults(end, array)
        elif name in given:
            text = f"expected a NumPy array, got {type(buffer).__name__}"
            faults.append(Problem(text, f"tensor '{name}'"))
        else:
            faults.append(Problem(f"missing {word} '{name}'"))
    if len(arrays) != len(given):
        faults[:0] = [
            Problem(f"{word} '{name}' not found", hint=suggest_name(name, ends))
            for name in given
            if name not in ends
        ]
    return arrays, faults


def _array_faults(end: Endpoint, array: Array) -> list[Problem]:
    where, found = f"tensor '{end.tensor.name}'", []
    if array.shape != end.shape:
        found.append(Problem(f"expected shape {end.shape}, got {array.shape}", where))
    if array.dtype != end.storage:
        stored = f"{end.tensor.dtype.name}, stored as {end.storage}"
        found.append(Problem(f"expected {stored}, got {array.dtype}", where))
    return found
