"""The application's buffers, checked against a graph's inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail.errors import BackendError, Problem, suggest_name
from dovetail.ir import Array, DType, Graph, Shape, Tensor
from dovetail.runtime.memory import Memory

Buffer = Array | Memory

# Bytes up to which a copy takes less than binding another array: some 2 us.
_SMALL = 1 << 14


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the application gives or takes at one end of a graph.

    Attributes:
        tensor: The tensor.
        shape: Its extents.
        storage: NumPy type of a stored element.
        is_float32: Whether what is stored are the real values, as float32.
        is_small: Whether copying it takes no time to speak of.
    """

    tensor: Tensor
    shape: Shape
    storage: np.dtype[np.generic]
    is_float32: bool
    is_small: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Endpoint:
        """Return a tensor's."""
        storage, is_float32 = tensor.dtype.storage, tensor.dtype is DType.FLOAT_32
        nbytes = math.prod(tensor.shape) * storage.itemsize
        return cls(tensor, tensor.shape, storage, is_float32, nbytes <= _SMALL)


@dataclass(frozen=True, slots=True)
class Interface:
    """What a graph reads from the application and gives to it; taken once, when it is finalized.

    Attributes:
        graph: Name of the graph.
        inputs, outputs: Ends by tensor name.
        gives_real: Whether all outputs are real values as they are stored.
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
        """Return a graph's."""
        inputs, outputs = graph.inputs, graph.outputs
        return cls(
            graph.name,
            {t.name: Endpoint.of(t) for t in inputs},
            {t.name: Endpoint.of(t) for t in outputs},
        )


class Results:
    """The outputs of runs for which the application brings no arrays; one run at a time.

    Small ones are written to arrays that stay, and copied for the application: binding new arrays
    to what writes them takes longer.

    Args:
        interface: The graph's.
    """

    def __init__(self, interface: Interface) -> None:
        outputs = interface.outputs.items()
        empty = {name: np.empty(end.shape, end.storage) for name, end in outputs if end.is_small}
        self._kept: Mapping[str, Array] = empty
        self._ends = interface.outputs

    def arrays(self) -> Mapping[str, Array]:
        """Return what a run writes to, by tensor name."""
        if len(self._kept) == len(self._ends):
            return self._kept
        return {
            name: self._kept[name] if end.is_small else np.empty(end.shape, end.storage)
            for name, end in self._ends.items()
        }

    def taken(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return what the application gets, once a run has written these."""
        return {n: array.copy() if n in self._kept else array for n, array in arrays.items()}


def checked_buffers(
    interface: Interface, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer] | None
) -> tuple[dict[str, Array], dict[str, Array] | None]:
    """Return the arrays of a run: inputs C-contiguous, outputs where some were given.

    Raises:
        BackendError: Names are unknown or missing, arrays do not fit, outputs cannot be written or
            share memory with an input or another output; every fault is listed.
    """
    given, faults = _matched("input", interface.inputs, inputs)
    taken: dict[str, Array] | None = None
    if outputs is not None:
        taken, misfits = _matched("output", interface.outputs, outputs)
        faults += misfits
        faults += [
            Problem("must be writable and C-contiguous", f"output '{name}'")
            for name, array in taken.items()
            if not array.flags.writeable or not array.flags.c_contiguous
        ]
        faults += _overlaps(given, taken)
    if faults:
        raise BackendError(
            "the buffers do not fit the graph",
            code="GRAPH_ERROR_INVALID_TENSOR",
            where=f"graph '{interface.graph}'",
            problems=faults,
        )
    for name, array in given.items():
        if not array.flags.c_contiguous:
            given[name] = array.copy()
    return given, taken


def _overlaps(given: Mapping[str, Array], taken: Mapping[str, Array]) -> list[Problem]:
    """Outputs whose bytes are those of an input or another output, too: they are written early."""
    named = [(f"output '{name}'", array) for name, array in taken.items()]
    others = [(f"input '{name}'", array) for name, array in given.items()]
    return [
        Problem(f"shares memory with {what}", where, "give each its own array")
        for i, (where, array) in enumerate(named)
        for what, other in (*others, *named[:i])
        if np.may_share_memory(array, other)
    ]


def _matched(
    word: str, ends: Mapping[str, Endpoint], given: Mapping[str, Buffer]
) -> tuple[dict[str, Array], list[Problem]]:
    """The arrays that fit their ends, and every reason why others do not."""
    faults: list[Problem] = []
    arrays: dict[str, Array] = {}
    for name, end in ends.items():
        buffer: object = given.get(name)
        if isinstance(buffer, Memory):
            buffer.require_alive()
            buffer = buffer.array
        if isinstance(buffer, np.ndarray):
            # a subclass (np.matrix, a masked array) computes in ways of its own
            array = arrays[name] = buffer if type(buffer) is np.ndarray else np.asarray(buffer)
            if array.shape != end.shape or array.dtype != end.storage:
                faults += _array_faults(end, array)
        elif name in given:
            text = f"is a {type(buffer).__name__}, not a NumPy array"
            faults.append(Problem(text, f"tensor '{name}'"))
        else:
            faults.append(Problem(f"{word} '{name}' is missing"))
    if len(arrays) != len(given):
        faults[:0] = [
            Problem(f"there is no {word} '{name}'", hint=suggest_name(name, ends))
            for name in given
            if name not in ends
        ]
    return arrays, faults


def _array_faults(end: Endpoint, array: Array) -> list[Problem]:
    where, found = f"tensor '{end.tensor.name}'", []
    if array.shape != end.shape:
        found.append(Problem(f"has shape {array.shape}; the graph has {end.shape}", where))
    if array.dtype != end.storage:
        stored = f"{end.tensor.dtype.name}, stored as {end.storage}"
        found.append(Problem(f"holds {array.dtype}; the graph has {stored}", where))
    return found
