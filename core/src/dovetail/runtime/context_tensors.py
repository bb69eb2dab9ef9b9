"""Context tensors: shared constants, and memory through which graphs exchange values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING

from dovetail import ir
from dovetail.container import aligned_zeros
from dovetail.errors import BackendError, GraphError, Problem
from dovetail.ir import Array, DType, TensorKind
from dovetail.ir.check import value_faults
from dovetail.runtime.interface import Interface
from dovetail.runtime.tensor import Tensor

if TYPE_CHECKING:  # a context creates its tensors
    from dovetail.runtime.context import Context

_KINDS = (TensorKind.APP_READWRITE, TensorKind.STATIC, TensorKind.UPDATEABLE_STATIC)


class ContextTensor(Tensor):
    """A tensor of a context. Created by `Context.create_tensor`.

    The data of a static one are shared by the graphs that read it. One of the kind APP_READWRITE
    has an array in the context: graphs that write it and graphs that read it use this array, so
    that no copies pass between them.

    Attributes:
        context: Its context.
    """

    def __init__(self, context: Context, tensor: ir.Tensor) -> None:
        faults = [Problem(text) for text in _faults(tensor)]
        if faults:
            raise GraphError(
                "the context cannot have this tensor",
                code="TENSOR_ERROR_INVALID_TENSOR_PARAM",
                where=f"tensor '{tensor.name}'",
                problems=faults,
            )
        super().__init__(tensor)
        self.context = context
        self.array: Array | None = None
        if not tensor.kind.is_static:
            self.array = _array_of(tensor)
            tensor.data = None  # the initial values, which the array has now

    def with_values(self) -> ir.Tensor:
        """Return its tensor with data: the values that it has now."""
        found = copy(self.ir)
        if self.array is not None and self.array.any():
            found.data = ir.pack(self.array, found.dtype)
        return found

    def values(self) -> Array:
        """Return the current stored values of an APP_READWRITE tensor, as a read-only view.

        Raises:
            BackendError: The tensor is static.
        """
        if self.array is None:
            raise BackendError(
                f"{self.describe()} is {self.ir.kind.name}, so graphs do not exchange its values",
                code="TENSOR_ERROR_UNSUPPORTED_FEATURE",
            )
        view = self.array.view()
        view.flags.writeable = False
        return view


class SharedTensors:
    """The context tensors that a graph uses.

    Args:
        name: Name of the graph.
        graph: Returns the graph.
        context: Its context.

    Attributes:
        inputs: Arrays of those that it reads from other graphs, by name.
        outputs: Arrays of those that it writes, by name.
    """

    def __init__(self, name: str, graph: Callable[[], ir.Graph], context: Context) -> None:
        self._name = name
        self._graph = graph
        self._context = context
        self._used: dict[ContextTensor, ir.Tensor] = {}
        self._stored: Sequence[ContextTensor] = ()
        self.inputs: Mapping[str, Array] = {}
        self.outputs: Mapping[str, Array] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the context tensors."""
        return tuple(tensor.name for tensor in self._used or self._stored)

    def restore(self, tensors: Sequence[ContextTensor], interface: Interface) -> None:
        """Use tensors of the context for those of a graph that was restored.

        Args:
            tensors: The context tensors that the graph used.
            interface: All inputs and outputs of the graph.
        """
        self._stored = tuple(tensors)
        arrays = {t.name: t.array for t in tensors if t.array is not None}
        self.inputs = {n: a for n, a in arrays.items() if n in interface.inputs}
        self.outputs = {n: a for n, a in arrays.items() if n in interface.outputs}

    def find(self, handle: ContextTensor) -> ir.Tensor | None:
        """Return the tensor of the graph for a context tensor, None if the graph has none."""
        if handle in self._stored:
            return self._graph().tensors.get(handle.name)
        return self._used.get(handle)

    def tensor(self, handle: Tensor | None, *, is_written: bool) -> ir.Tensor | None:
        """Return the tensor of the graph for a handle; it is added for a new context tensor.

        Args:
            handle: A handle of any tensor, or None.
            is_written: Whether a node writes it.

        Raises:
            GraphError: It belongs to another context, its name is taken, or the graph has read the
                values of another graph from it before.
        """
        if not isinstance(handle, ContextTensor):
            return None if handle is None else handle.ir
        handle.require_alive()
        if handle.context is not self._context:
            raise self._error(handle, "belongs to another context", "create it in this context")
        used = self._used.get(handle)
        if used is None:
            used = self._used[handle] = self._graph().add_tensor(_local(handle.ir, is_written))
        elif is_written and used.kind is TensorKind.APP_WRITE:
            hint = "write another context tensor, or write before reading"
            raise self._error(handle, "is already read with the values of another graph", hint)
        return used

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Remove the tensors that were added inside if an error occurs."""
        before = len(self._used)
        try:
            yield
        except BaseException:
            for handle in list(self._used)[before:]:
                self._graph().remove_tensor(self._used.pop(handle))
            raise
        arrays = {t.name: (t, h.array) for h, t in self._used.items() if h.array is not None}
        self.inputs = {n: array for n, (t, array) in arrays.items() if t.kind.is_input}
        self.outputs = {n: array for n, (t, array) in arrays.items() if t.kind.is_output}

    def _error(self, handle: ContextTensor, text: str, hint: str) -> GraphError:
        return GraphError(
            f"{handle.describe()} {text}",
            code="GRAPH_ERROR_INVALID_TENSOR",
            where=f"graph '{self._name}'",
            hint=hint,
        )


def _faults(tensor: ir.Tensor) -> Iterator[str]:
    if tensor.kind not in _KINDS:
        allowed = ", ".join(kind.name for kind in _KINDS)
        yield f"is {tensor.kind.name}; allowed in a context: {allowed}"
        return
    if tensor.kind.is_static:
        yield from value_faults(tensor)
        return
    if tensor.dtype is DType.STRING:
        yield "holds text, which has no fixed size"
        return
    form = ir.Tensor(
        tensor.name, tensor.dtype, tensor.shape, TensorKind.APP_WRITE, encoding=tensor.encoding
    )
    faults = value_faults(form)
    yield from faults
    wanted = tensor.dtype.nbytes(tensor.shape)
    if not faults and tensor.data is not None and tensor.data.nbytes != wanted:
        yield f"has {tensor.data.nbytes} bytes of initial values, but takes {wanted}"


def _array_of(tensor: ir.Tensor) -> Array:
    storage = tensor.dtype.storage
    try:
        memory = aligned_zeros(math.prod(tensor.shape) * storage.itemsize)
    except (MemoryError, ValueError) as error:
        raise BackendError(
            f"cannot allocate the shape {tensor.shape}",
            code="CONTEXT_ERROR_MEM_ALLOC",
            where=f"tensor '{tensor.name}'",
        ) from error
    array: Array = memory.view(storage).reshape(tensor.shape)
    if tensor.data is not None:
        array[...] = tensor.stored()
    return array


def _local(tensor: ir.Tensor, is_written: bool) -> ir.Tensor:
    """Return a tensor for a graph that uses a context tensor."""
    used = TensorKind.APP_READ if is_written else TensorKind.APP_WRITE
    return ir.Tensor(
        tensor.name,
        tensor.dtype,
        tensor.shape,
        tensor.kind if tensor.kind.is_static else used,
        encoding=tensor.encoding,
        data=tensor.data,
        source=tensor.source,
    )
