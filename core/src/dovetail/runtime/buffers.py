"""The application's buffers, checked against a graph's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.errors import BackendError, Problem, unknown_name
from dovetail.ir import Array, Graph, Tensor
from dovetail.runtime.memory import Memory

Buffer = Array | Memory


def checked_inputs(graph: Graph, given: Mapping[str, Buffer]) -> dict[str, Array]:
    """Gives the input arrays of a run, C-contiguous.

    Raises:
        BackendError: Names are unknown or missing, or arrays do not fit; every fault is listed.
    """
    arrays, faults = _matched("input", {t.name: t for t in graph.inputs}, given)
    _refuse(graph, faults)
    return {name: array.copy() if _scattered(array) else array for name, array in arrays.items()}


def checked_outputs(graph: Graph, given: Mapping[str, Buffer] | None) -> dict[str, Array]:
    """Gives the output arrays of a run, fresh ones where none were given.

    Raises:
        BackendError: As for inputs; outputs must be writable and C-contiguous.
    """
    tensors = {t.name: t for t in graph.outputs}
    if given is None:
        return {name: np.empty(t.shape, t.dtype.storage) for name, t in tensors.items()}
    arrays, faults = _matched("output", tensors, given)
    faults += [
        Problem("must be writable and C-contiguous", f"output '{name}'")
        for name, array in arrays.items()
        if not array.flags.writeable or _scattered(array)
    ]
    _refuse(graph, faults)
    return arrays


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
            arrays[name] = buffer
            faults += _array_faults(tensor, buffer)
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


def _scattered(array: Array) -> bool:
    return not array.flags.c_contiguous


def _refuse(graph: Graph, faults: list[Problem]) -> None:
    if faults:
        raise BackendError(
            "the buffers do not fit the graph",
            code="GRAPH_ERROR_INVALID_TENSOR",
            where=f"graph '{graph.name}'",
            problems=faults,
        )
