"""Shared buffers: registered memory for all inputs and outputs of a graph."""

from __future__ import annotations

import mmap
from collections.abc import Mapping

from dovetail import ir
from dovetail.arguments import check_arguments
from dovetail.container import Closing
from dovetail.errors import BackendError
from dovetail.ir import Array, MemoryType
from dovetail.runtime.graph import Graph
from dovetail.runtime.interface import Endpoint
from dovetail.runtime.memory import Memory


@check_arguments
def set_io_memory_type(graph: ir.Graph, memory_type: MemoryType) -> None:
    """Set the memory type of all inputs and outputs of a graph that is not composed yet.

    Args:
        graph: A graph of a model.
        memory_type: MEMHANDLE if the application will pass registered memory; RAW if arrays. Either
            can be passed in any case; see docs/runtime.md for what is allocated and copied.
    """
    for tensor in (*graph.inputs, *graph.outputs):
        tensor.memory_type = memory_type


class SharedBuffers(Closing):
    """Registered memory for all inputs and outputs of a graph; a context manager.

    The memory is page-aligned, zero at first, and shared with processes that are forked later. Pass
    `inputs` and `outputs` to `Graph.execute`, write and read `arrays`.

    Args:
        graph: A finalized graph.

    Attributes:
        inputs, outputs: Handles by tensor name.
        arrays: The stored values of each tensor, by name.

    Raises:
        BackendError: The backend does not support memory handles, or the system has not so much
            memory.
    """

    @check_arguments
    def __init__(self, graph: Graph) -> None:
        self.inputs: Mapping[str, Memory] = {}
        self.outputs: Mapping[str, Memory] = {}
        self.arrays: dict[str, Array] = {}
        self._graph = graph
        interface = graph.interface
        try:
            self.inputs = {n: self._registered(n, end) for n, end in interface.inputs.items()}
            self.outputs = {n: self._registered(n, end) for n, end in interface.outputs.items()}
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Deregister the memory; it is released with the last array that the application holds."""
        self.arrays = {}
        for memory in (*self.inputs.values(), *self.outputs.values()):
            if not memory.is_freed:
                memory.deregister()

    def _registered(self, name: str, end: Endpoint) -> Memory:
        try:
            block = mmap.mmap(-1, max(end.nbytes, 1))
        except (OSError, OverflowError, ValueError) as error:
            raise BackendError(
                f"cannot allocate {end.nbytes} bytes: {error}",
                code="CONTEXT_ERROR_MEM_ALLOC",
                where=f"graph '{self._graph.name}', tensor '{name}'",
            ) from error
        memory = self._graph.context.register_memory(block, end.tensor.dtype, end.shape)
        if (array := memory.descriptor.array) is not None:
            self.arrays[name] = array
        return memory
