"""Buffers of a run as registered memory."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.ir import Array, Tensor
from dovetail.runtime import Context, Memory


class SharedBuffers:
    """Registers the arrays of a graph with its context, each one once.

    An array must live as long as its handle, and is not moved: its address identifies it.

    Args:
        context: The context.
        tensors: The inputs and outputs of the graph, by name.
    """

    def __init__(self, context: Context, tensors: Mapping[str, Tensor]) -> None:
        self._context = context
        self._tensors = tensors
        self._handles: dict[tuple[str, int], Memory] = {}

    def handles(self, arrays: Mapping[str, Array]) -> dict[str, Array | Memory]:
        """Return the memory handles of arrays, by tensor name."""
        return {name: self._handle(name, array) for name, array in arrays.items()}

    def free(self) -> None:
        """Deregister all memory."""
        for handle in self._handles.values():
            handle.deregister()
        self._handles.clear()

    def _handle(self, name: str, array: Array) -> Array | Memory:
        if not array.size:  # such arrays may have the same address
            return array
        key = name, array.ctypes.data
        if key not in self._handles:
            tensor = self._tensors[name]
            self._handles[key] = self._context.register_memory(array, tensor.dtype, array.shape)
        return self._handles[key]
