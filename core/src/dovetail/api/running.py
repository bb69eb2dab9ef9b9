"""Runs of a graph on real values, or on stored ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail.errors import BackendError, suggest_name
from dovetail.ir import Array, DType
from dovetail.ir.storage import as_numbers
from dovetail.ops import from_real, to_real, unstorable
from dovetail.runtime import Context, Graph, Profile, Signal
from dovetail.runtime.interface import Endpoint

_NUMERIC = "fiub"  # kinds of NumPy's types that are numbers; others need a conversion


def run_graph(
    graph: Graph,
    inputs: Mapping[str, Any],
    profile: Profile | None = None,
    signal: Signal | None = None,
    *,
    native: bool = False,
) -> dict[str, Array]:
    """Run a graph on real values, or on stored ones; see `Session.run`."""
    interface = graph.interface
    ends = interface.inputs
    if not native:
        inputs = {
            name: _stored(value, ends[name]) if name in ends else value
            for name, value in inputs.items()
        }
    outputs = graph.execute(inputs, None, profile, signal)
    if native or interface.gives_real:
        return outputs
    return {name: _real(outputs[name], end) for name, end in interface.outputs.items()}


def chosen_graph(context: Context, name: str | None) -> Graph:
    """Return a graph of a context, by default the only one.

    Raises:
        BackendError: It does not exist, or there are several.
    """
    context.require_alive()
    graphs = context.graphs
    if name is None and len(graphs) == 1:
        return next(iter(graphs.values()))
    if not isinstance(name, str) or name not in graphs:
        wanted = (
            "the session has several graphs: name one with `graph`"
            if name is None
            else f"graph '{name}' not found"
        )
        raise BackendError(
            wanted,
            code="GRAPH_ERROR_GRAPH_DOES_NOT_EXIST",
            hint=suggest_name(str(name or ""), graphs),
        )
    return graphs[name]


def inputs_by_name(inputs: object, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the inputs of a run by name; a value that is not a mapping is the only input.

    Raises:
        BackendError: The value is not a mapping, and the number of inputs is not one.
    """
    if isinstance(inputs, Mapping):
        return inputs
    if len(names) == 1:
        return {names[0]: inputs}
    raise BackendError(
        f"expected a mapping from input names to arrays, got {type(inputs).__name__}",
        code="INPUT_INVALID",
        hint=f"the inputs are {', '.join(names)}" if names else "the graph has no inputs",
    )


def as_array(value: object, name: str) -> Array:
    """Return the array of an input as NumPy converts it; see `as_numbers`.

    Raises:
        BackendError: NumPy cannot convert it.
    """
    try:
        return as_numbers(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise BackendError(
            f"cannot convert a {type(value).__name__} to an array: {error}",
            code="INPUT_INVALID",
            where=f"input '{name}'",
            hint="pass a NumPy array, or nested lists with rows of equal lengths",
        ) from error


def _stored(value: Any, end: Endpoint) -> Array:
    """Return real values in a tensor's stored form; the graph checks their shape."""
    is_numeric = type(value) is np.ndarray and value.dtype.kind in _NUMERIC
    array, tensor = value if is_numeric else as_array(value, end.tensor.name), end.tensor
    if end.stores_real and array.dtype == end.storage:
        return array
    if array.shape != tensor.shape or array.dtype.kind not in _NUMERIC:
        return array
    is_whole = tensor.dtype.is_int or tensor.dtype is DType.BOOL_8
    if is_whole and (wrong := unstorable(array, tensor.dtype)).any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise BackendError(
            f"element {at} of input '{tensor.name}' is {array[at]}, "
            f"which {tensor.dtype.name} cannot hold",
            code="INPUT_INVALID",
        )
    return from_real(array, tensor.spec)


def _real(stored: Array, end: Endpoint) -> Array:
    if end.stores_real:
        return stored
    real = to_real(stored, end.tensor.spec)
    return real.astype(np.float32, copy=False) if real.dtype.kind == "f" else real
