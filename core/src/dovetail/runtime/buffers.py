"""Checks of the application's buffers against a graph's inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dovetail.errors import BackendError, Problem, suggest_name
from dovetail.ir import Array, Shape, Tensor
from dovetail.runtime.context_tensors import SharedTensors
from dovetail.runtime.contract import Binding
from dovetail.runtime.interface import Endpoint, Interface
from dovetail.runtime.memory import Memory

if TYPE_CHECKING:  # a context's graphs check their buffers here
    from dovetail.runtime.context import Context

Buffer = Array | Memory
# Buffers of which each pair is compared; sorting more of them takes less time.
_MOST_COMPARED = 16


def checked_buffers(
    interface: Interface,
    inputs: Mapping[str, Buffer],
    outputs: Mapping[str, Buffer] | None,
    context: Context,
    shared: SharedTensors,
) -> tuple[dict[str, Binding], dict[str, Binding] | None]:
    """Return what a run reads and writes: C-contiguous arrays, and tokens of registered memory.

    Args:
        interface: Interface of the graph.
        inputs: The application's inputs.
        outputs: Its outputs, if it gave any.
        context: The context that registered memory must belong to.
        shared: The context tensors that the graph uses; those that it reads are added.

    Raises:
        BackendError: Names are unknown or missing, arrays do not match, or outputs cannot be
            written or share memory with an input or another output; every fault is listed.
    """
    given, faults = _matched("input", interface.inputs, inputs, context)
    if shared.inputs:
        given |= shared.inputs
    taken: dict[str, Binding] | None = None
    if outputs is not None:
        taken, mismatches = _matched("output", interface.outputs, outputs, context)
        faults += mismatches
        faults += [
            Problem("must be writable and C-contiguous", f"output '{name}'")
            for name, array in taken.items()
            if isinstance(array, np.ndarray)
            and not (array.flags.writeable and array.flags.c_contiguous)
        ]
    written = {**(taken or {}), **shared.outputs} if shared.outputs else taken
    if written:
        faults += _overlaps(given, written)
    if faults:
        raise BackendError(
            "the buffers do not match the graph",
            code="GRAPH_ERROR_INVALID_TENSOR",
            where=f"graph '{interface.graph}'",
            problems=faults,
        )
    for name, array in given.items():
        if isinstance(array, np.ndarray) and not array.flags.c_contiguous:
            given[name] = array.copy()
    return given, taken


def _overlaps(given: Mapping[str, Binding], taken: Mapping[str, Binding]) -> list[Problem]:
    """Return a problem for each output that shares memory with an input or another output."""
    named = [(f"output '{name}'", array) for name, array in taken.items()]
    others = [(f"input '{name}'", array) for name, array in given.items()]
    if len(named) + len(others) > _MOST_COMPARED:
        suspects = _neighbors([array for _, array in (*others, *named)])
        named = [(where, array) for where, array in named if id(array) in suspects]
        others = [(where, array) for where, array in others if id(array) in suspects]
    return [
        Problem(f"shares memory with {what}", where, "pass a separate array for each")
        for i, (where, array) in enumerate(named)
        for what, other in (*others, *named[:i])
        if _is_shared(array, other)
    ]


def _neighbors(buffers: Sequence[Binding]) -> set[int]:
    """Return the ids of buffers that may share memory: those that do, and few others."""
    tokens = Counter(id(each) for each in buffers if not isinstance(each, np.ndarray))
    found = {key for key, count in tokens.items() if count > 1}
    arrays = [each for each in buffers if isinstance(each, np.ndarray)]
    last, end = 0, -1  # the array that reaches furthest
    for start, stop, key in sorted((*byte_bounds(each), id(each)) for each in arrays):
        if start < end:
            found |= {key, last}
        if stop > end:
            last, end = key, stop
    return found


def _is_shared(one: Binding, other: Binding) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.may_share_memory(one, other)
    return one is other


def _matched(
    word: str, ends: Mapping[str, Endpoint], given: Mapping[str, Buffer], context: Context
) -> tuple[dict[str, Binding], list[Problem]]:
    """Return the given buffers by name, and every reason why one does not match its endpoint."""
    faults: list[Problem] = []
    found: dict[str, Binding] = {}
    for name, end in ends.items():
        buffer: object = given.get(name)
        if isinstance(buffer, Memory):
            buffer.require_alive()
            faults += _memory_faults(end, buffer, context)
            if buffer.binding is not None:
                buffer = found[name] = buffer.binding
        if isinstance(buffer, np.ndarray):
            # a subclass (np.matrix, a masked array) computes differently
            array = found[name] = buffer if type(buffer) is np.ndarray else np.asarray(buffer)
            if array.shape != end.shape or array.dtype != end.storage:
                faults += _array_faults(end, array)
        elif name in found:  # a token
            continue
        elif name in given:
            text = f"expected a NumPy array, got {type(buffer).__name__}"
            faults.append(Problem(text, f"tensor '{name}'"))
        else:
            faults.append(Problem(f"missing {word} '{name}'"))
    if len(found) != len(given):
        faults[:0] = [
            Problem(f"{word} '{name}' not found", hint=suggest_name(name, ends))
            for name in given
            if name not in ends
        ]
    return found, faults


def _memory_faults(end: Endpoint, memory: Memory, context: Context) -> list[Problem]:
    where, found, form = f"tensor '{end.tensor.name}'", [], memory.descriptor
    if memory.context is not context:
        found.append(Problem("the memory is registered in another context", where))
    if form.array is None and (form.shape, form.dtype) != (end.shape, end.tensor.dtype):
        wanted = f"{end.tensor.dtype.name} {end.shape}"
        found.append(Problem(f"expected {wanted}, got {form.dtype.name} {form.shape}", where))
    return found


def _array_faults(end: Endpoint, array: Array) -> list[Problem]:
    where, found = f"tensor '{end.tensor.name}'", []
    if array.shape != end.shape and not _is_within(array.shape, end.tensor):
        found.append(Problem(f"expected shape {end.shape}, got {array.shape}", where))
    if array.dtype != end.storage:
        stored = f"{end.tensor.dtype.name}, stored as {end.storage}"
        found.append(Problem(f"expected {stored}, got {array.dtype}", where))
    return found


def _is_within(shape: Shape, tensor: Tensor) -> bool:
    """Return whether a shape differs from a tensor's only by less on dynamic axes."""
    if not tensor.dynamic or len(shape) != len(tensor.shape):
        return False
    axes = zip(shape, tensor.shape, tensor.dynamic, strict=True)
    return all(size == most or (is_dynamic and size < most) for size, most, is_dynamic in axes)
