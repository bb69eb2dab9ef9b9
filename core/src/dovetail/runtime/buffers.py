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
    tensors = {t.name: t for t in graph.inputs}
    faults = _name_faults("input", tensors, given)
    arrays = {name: _array(buffer) for name, buffer in given.items() if name in tensors}
    faults += [f for name, array in arrays.items() for f in _array_faults(tensors[name], array)]
    _refuse(graph, faults)
    return {name: np.ascontiguousarray(array) if array.ndim else array for name, array in arrays.items()}


def checked_outputs(graph: Graph, given: Mapping[str, Buffer] | None) -> dict[str, Array]:
    """Gives the output arrays of a run, fresh ones where none were given.

    Raises:
        BackendError: As for inputs; outputs must be writable and C-contiguous.
    """
    tensors = {t.name: t for t in graph.outputs}
    if given is None:
        return {name: np.empty(t.shape, t.dtype.storage) for name, t in tensors.items()}
    faults = _name_faults("output", tensors, given)
    arrays = {name: _array(buffer) for name, buffer in given.items() if name in tensors}
    for name, array in arrays.items():
        faults += _array_faults(tensors[name], array)
        if not (array.flags.writeable and array.flags.c_contiguous):
            faults.append(Problem("must be writable and C-contiguous", f"output '{name}'"))
    _refuse(graph, faults)
    return arrays


def _array(buffer: Buffer) -> Array:
    if isinstance(buffer, Memory):
        buffer.require_alive()
        return buffer.array
    return buffer


def _name_faults(
    word: str, tensors: Mapping[str, Tensor], given: Mapping[str, Buffer]
) -> list[Problem]:
    unknown = [n for n in given if n not in tensors]
    missing = [n for n in tensors if n not in given]
    return [
        *(Problem(f"there is no {word} '{n}'", hint=unknown_name(n, tensors)) for n in unknown),
        *(Problem(f"{word} '{n}' is missing") for n in missing),
    ]


def _array_faults(tensor: Tensor, array: Array) -> list[Problem]:
    where, wanted = f"tensor '{tensor.name}'", tensor.dtype.storage
    if not isinstance(array, np.ndarray):
        return [Problem(f"is a {type(array).__name__}, not a NumPy array", where)]
    found = []
    if array.shape != tensor.shape:
        found.append(Problem(f"has shape {array.shape}; the graph has {tensor.shape}", where))
    if array.dtype != wanted:
        stored = f"{tensor.dtype.name}, stored as {wanted}"
        found.append(Problem(f"holds {array.dtype}; the graph has {stored}", where))
    return found


def _refuse(graph: Graph, faults: list[Problem]) -> None:
    if faults:
        raise BackendError(
            "the buffers do not fit the graph",
            code="GRAPH_ERROR_INVALID_TENSOR",
            where=f"graph '{graph.name}'",
            problems=faults,
        )
