"""The application's buffers, checked against a graph's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.errors import BackendError, Problem, unknown_name
from dovetail.ir import Array, Graph, Tensor
from dovetail.runtime.memory import Memory

Buffer = Array | Memory


@dataclass(frozen=True, slots=True)
class Interface:
    """What a graph reads from the application and gives to it; taken once, when it is finalized.

    Attributes:
        graph: Name of the graph.
        inputs, outputs: Tensors by name.
    """

    graph: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]

    @classmethod
    def of(cls, graph: Graph) -> Interface:
        """Gives a graph's."""
        inputs, outputs = graph.inputs, graph.outputs
        return cls(graph.name, {t.name: t for t in inputs}, {t.name: t for t in outputs})


def checked_buffers(
    interface: Interface, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer] | None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Gives the arrays of a run: inputs C-contiguous, outputs fresh where none were given.

    Raises:
        BackendError: Names are unknown or missing, arrays do not fit, outputs cannot be written or
            share memory with an input or another output; every fault is listed.
    """
    given, faults = _matched("input", interface.inputs, inputs)
    taken: dict[str, Array] = {}
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
    if outputs is None:
        taken = {n: np.empty(t.shape, t.dtype.storage) for n, t in interface.outputs.items()}
    return {n: a if a.flags.c_contiguous else a.copy() for n, a in given.items()}, taken


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
    word: str, tensors: Mapping[str, Tensor], given: Mapping[str, Buffer]
) -> tuple[dict[str, Array], list[Problem]]:
    """The arrays that fit a tensor, and every reason why others do not."""
    faults = [
        Problem(f"there is no {word} '{name}'", hint=unknown_name(name, tensors))
        for name in given
        if name not in tensors
    ]
    arrays: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if name not in given:
            faults.append(Problem(f"{word} '{name}' is missing"))
            continue
        buffer: object = given[name]
        if isinstance(buffer, Memory):
            buffer.require_alive()
            buffer = buffer.array
        if isinstance(buffer, np.ndarray):
            # a subclass (np.matrix, a masked array) computes in ways of its own
            arrays[name] = buffer if type(buffer) is np.ndarray else np.asarray(buffer)
            faults += _array_faults(tensor, arrays[name])
        else:
            text = f"is a {type(buffer).__name__}, not a NumPy array"
            faults.append(Problem(text, f"tensor '{name}'"))
    return arrays, faults


def _array_faults(tensor: Tensor, array: Array) -> list[Problem]:
    where, wanted = f"tensor '{tensor.name}'", tensor.dtype.storage
    found = []
    if array.shape != tensor.shape:
        found.append(Problem(f"has shape {array.shape}; the graph has {tensor.shape}", where))
    if array.dtype != wanted:
        stored = f"{tensor.dtype.name}, stored as {wanted}"
        found.append(Problem(f"holds {array.dtype}; the graph has {stored}", where))
    return found
