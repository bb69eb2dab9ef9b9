"""Contexts: groups of graphs that share packed weights."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from dovetail import ir
from dovetail.arguments import check_arguments
from dovetail.container import Closing, ContextFile, Model
from dovetail.errors import BackendError, GraphError, suggest_name
from dovetail.files import atomic_write
from dovetail.ir import Array, Blob, DType, Encoding, Shape, TensorKind
from dovetail.ir.check import check
from dovetail.ops import require_known
from dovetail.runtime.binary_parts import binary_parts, written
from dovetail.runtime.config import ContextConfig, GraphConfig, Priority, typed_config
from dovetail.runtime.context_binaries import Binary, open_binary
from dovetail.runtime.context_tensors import ContextTensor
from dovetail.runtime.contract import RunControl
from dovetail.runtime.executions import Executions
from dovetail.runtime.graph import Graph
from dovetail.runtime.handle import Handle, api_call
from dovetail.runtime.measurements import Recorder
from dovetail.runtime.memory import Memory, register
from dovetail.runtime.plugin_errors import log_errors, translate_errors
from dovetail.runtime.restoring import restored_content
from dovetail.runtime.sections import apply_section, section_parts
from dovetail.runtime.signal import Signal, controlled
from dovetail.runtime.tensor import owned_blob
from dovetail.runtime.tokens import Tokens
from dovetail.runtime.updates import checked_update

if TYPE_CHECKING:  # a context belongs to a backend, which imports it
    from dovetail.runtime.backend import Backend
    from dovetail.runtime.device import Device


class Context(Handle, Closing):
    """Graphs on a device. Created by `Backend.create_context`; a context manager.

    Attributes:
        backend, device: Its backend and device.
        weights: Forms of constants, shared by its graphs.
        plugin: What the backend keeps for it.
        tokens: Tokens of its registered memory.
        executions: Its executions that have begun or wait.
    """

    kind = "context"
    invalid_code = "CONTEXT_ERROR_INVALID_HANDLE"

    def __init__(self, backend: Backend, device: Device, config: ContextConfig) -> None:
        super().__init__()
        self.backend = backend
        self.device = device
        self.config = config
        self.priority = Priority.of(config.context_priority, "context config")
        self.weights = backend.weights.sibling()
        with translate_errors(
            backend.name, "`open_context` failed", "COMMON_ERROR_RESOURCE_UNAVAILABLE"
        ):
            self.plugin = backend.plugin.open_context(device.config, config, self.weights)
        self.executions = Executions(config.async_execute_queue_depth, self.invalid_code)
        self.tokens = Tokens()
        self._graphs: dict[str, Graph] = {}
        self._tensors: dict[str, ContextTensor] = {}
        self._memory: WeakSet[Memory] = WeakSet()

    # -- graphs ----------------------------------------------------------------------------------

    @property
    def graphs(self) -> Mapping[str, Graph]:
        """Its graphs by name."""
        return self._graphs

    @api_call("graph_create")
    def create_graph(
        self, name: str, config: GraphConfig | Mapping[str, Any] | None = None
    ) -> Graph:
        """Create an empty graph.

        Raises:
            BackendError: The name is empty or taken, or the backend has no priorities.
            ConfigError: The config is wrong.
        """
        settings = typed_config(
            config, self.backend.plugin.configs.graph, f"config of graph '{name}'"
        )
        graph = Graph(self, name, settings)
        with self.executions.open():
            if not name or name in self._graphs:
                why = "taken" if name else "empty"
                raise BackendError(
                    f"the graph name '{name}' is {why}", code="GRAPH_ERROR_INVALID_NAME"
                )
            self._graphs[name] = graph
        return graph

    @api_call("graph_retrieve")
    def retrieve_graph(self, name: str) -> Graph:
        """Return a graph by name.

        Raises:
            BackendError: The name is unknown.
        """
        if name not in self._graphs:
            raise BackendError(
                f"graph '{name}' not found",
                code="GRAPH_ERROR_GRAPH_DOES_NOT_EXIST",
                hint=suggest_name(name, self._graphs),
            )
        return self._graphs[name]

    @check_arguments
    def compose(
        self, model: Model, shared: Mapping[str, Collection[str]] = MappingProxyType({})
    ) -> tuple[Graph, ...]:
        """Create the graphs of a model with the same calls as an application.

        Args:
            model: The model.
            shared: Names of the context tensors that each graph uses, by its name; they replace the
                graph's own tensors.

        Raises:
            UnsupportedOpError: A graph uses unknown ops; all of them are listed.
            GraphError: A graph has faults; all of them are listed, and no graph is created.
        """
        for graph in model.graphs.values():
            check(graph)
            known = [n for n in graph.nodes if not self.backend.is_opaque(n)]
            require_known(known, self.backend.ops, f"graph '{graph.name}'")
        made: list[Graph] = []
        try:
            for graph in model.graphs.values():
                made.append(self.create_graph(graph.name))
                names = shared.get(graph.name, ())
                made[-1].compose(graph, {name: self.retrieve_tensor(name) for name in names})
        except BaseException:
            for handle in made:
                del self._graphs[handle.name]
                handle.invalidate()
            raise
        return tuple(made)

    # -- tensors ---------------------------------------------------------------------------------

    @api_call("context_create_tensor")
    def create_tensor(
        self,
        name: str,
        dtype: DType,
        shape: Shape,
        kind: TensorKind = TensorKind.APP_READWRITE,
        encoding: Encoding | None = None,
        data: Blob | Array | None = None,
        source: str | None = None,
    ) -> ContextTensor:
        """Create a tensor that the graphs of the context share.

        Args:
            name: Its name, also in the graphs that use it.
            dtype: Element type.
            shape: Static shape.
            kind: APP_READWRITE for a tensor through which graphs exchange values, STATIC or
                UPDATEABLE_STATIC for a shared constant.
            encoding: For fixed-point types.
            data: Data of a static tensor, or the initial values of another, by default zeros; as
                for `Graph.create_tensor`.
            source: Its name in the user's model.

        Raises:
            GraphError: The name is taken, or the context cannot have this tensor; every reason is
                listed.
        """
        blob = None if data is None else owned_blob(data, dtype)
        tensor = ir.Tensor(name, dtype, shape, kind, encoding=encoding, data=blob, source=source)
        made = ContextTensor(self, tensor)
        with self.executions.open():
            if self._tensors.setdefault(name, made) is not made:
                raise GraphError(
                    f"duplicate tensor name '{name}'",
                    code="TENSOR_ERROR_ALREADY_EXISTS",
                    hint="names of context tensors are unique; rename one of them",
                )
        return made

    @api_call("context_retrieve_tensor")
    def retrieve_tensor(self, name: str) -> ContextTensor:
        """Return a tensor of the context by name.

        Raises:
            GraphError: The name is unknown.
        """
        if name not in self._tensors:
            raise GraphError(
                f"context tensor '{name}' not found",
                code="TENSOR_ERROR_DOES_NOT_EXIST",
                hint=suggest_name(name, self._tensors),
            )
        return self._tensors[name]

    def shared_tensors(self) -> tuple[ir.Tensor, ...]:
        """Return its tensors with the values that they have now."""
        return tuple(tensor.with_values() for tensor in self._tensors.values())

    @api_call("context_update_tensor")
    def update_tensor(
        self,
        tensor: ContextTensor,
        data: Blob | Array | None = None,
        encoding: Encoding | None = None,
    ) -> None:
        """Replace data or encoding of an UPDATEABLE context tensor in all graphs that use it.

        These graphs must be finalized (again) before they are executed.

        Args:
            tensor: A tensor of the context.
            data: New data, as for `Graph.create_tensor`; None to keep them.
            encoding: The new encoding; None to keep it.

        Raises:
            BackendError: The backend does not support updates, or a graph is being finalized.
            GraphError: The tensor belongs to another context or is not UPDATEABLE, or the update
                does not match it; every reason is listed.
        """
        self.backend.require("updates", "TENSOR_ERROR_UNSUPPORTED_FEATURE")
        tensor.require_alive()
        if tensor.context is not self:
            raise GraphError(
                f"{tensor.describe()} belongs to another context",
                code="TENSOR_ERROR_DOES_NOT_EXIST",
            )
        update = checked_update(tensor.ir, data, encoding, None)
        graphs = [(g, t) for g in self._graphs.values() if (t := g.find_shared(tensor)) is not None]
        for graph, _ in graphs:
            graph.require_updateable()
        tensor.ir.data, tensor.ir.encoding = update.data, update.encoding
        for graph, used in graphs:
            graph.stage({used: update})

    # -- memory ----------------------------------------------------------------------------------

    @api_call("memory_register")
    def register_memory(
        self,
        array: object | None,
        dtype: DType,
        shape: Shape | None = None,
        custom: Mapping[str, Any] | None = None,
    ) -> Memory:
        """Register memory, so that its handle can be an input or output; nothing is copied.

        Args:
            array: Stored values of `dtype`: a C-contiguous NumPy array, a `SharedMemory`, a buffer
                such as `mmap`, or an object of the host with `__dlpack__`. Read-only memory can be
                an input. None for memory that is not the host's.
            dtype: Type of its elements.
            shape: Its shape; by default the array's. Required for bytes without a type; they may be
                more.
            custom: What the backend needs to find memory that is not the host's.

        Raises:
            BackendError: The backend does not support memory handles or this memory, or the array
                is unsuitable.
        """
        memory = register(self, array, dtype, shape, custom)
        try:
            with self.executions.open():
                self._memory.add(memory)
        except BackendError:  # too late for `free`
            memory.invalidate()
            raise
        return memory

    # -- binaries --------------------------------------------------------------------------------

    @api_call("context_get_binary_size")
    def get_binary_size(self, embed_model: bool = True) -> int:
        """Return the size in bytes of what `get_binary` returns.

        Raises:
            BackendError: As for `get_binary`.
        """
        return sum(map(len, binary_parts(self, embed_model=embed_model)))

    @api_call("context_get_binary")
    def get_binary(self, buffer: Array | None = None, embed_model: bool = True) -> Array:
        """Return the context as a binary, from which it is created again without preparation.

        Equal contexts have equal binaries.

        Args:
            buffer: Receives the binary: writable, uint8, one axis; by default a new array.
            embed_model: Whether the binary has the graphs themselves, too. Then it can be prepared
                again elsewhere, and tensors can be updated.

        Returns:
            The bytes: uint8, one axis; the beginning of `buffer` if that is given.

        Raises:
            BackendError: The backend has no binaries, a graph is not finalized, there are none, or
                the buffer is too small.
        """
        return written(binary_parts(self, embed_model=embed_model), buffer)

    def save(self, path: str | os.PathLike[str], *, embed_model: bool = True) -> None:
        """Write the context's binary to a file; an error leaves no file, or the old one.

        Args:
            path: The file.
            embed_model: As for `get_binary`.

        Raises:
            BackendError: As for `get_binary`.
            ContainerError: The file cannot be written.
        """
        data = self.get_binary(embed_model=embed_model)
        with atomic_write(path) as file:
            file.write(data.data)

    def restore(self, file: ContextFile, record: Recorder | None, control: RunControl) -> None:
        """Restore the graphs and tensors of a binary; called by the backend.

        Args:
            file: The binary.
            record: Receives measurements.
            control: Can end the work.

        Raises:
            ContainerError: The binary does not suit the backend, or is damaged.
            BackendError: A graph to enable does not exist, or graphs cannot be restored.
        """
        tensors, graphs = restored_content(file, self, record, control)
        self._tensors |= tensors
        self._graphs |= graphs

    # -- sections --------------------------------------------------------------------------------

    @api_call("context_get_binary_section_size")
    def get_binary_section_size(self, graph: Graph | None = None) -> int:
        """Return the size in bytes of what `get_binary_section` returns.

        Raises:
            BackendError: As for `get_binary_section`.
        """
        return sum(map(len, section_parts(self, self._chosen(graph))))

    @api_call("context_get_binary_section")
    def get_binary_section(self, graph: Graph | None = None, buffer: Array | None = None) -> Array:
        """Return the updates of tensors as a section, which `apply_binary_section` uses.

        A section has the tensors that differ from the graph as it was first finalized, or as it is
        in its context binary.

        Args:
            graph: The graph; by default all of the context.
            buffer: As for `get_binary`.

        Raises:
            BackendError: The backend has no sections, updates are not finalized, there are no
                graphs, or the buffer is too small.
        """
        return written(section_parts(self, self._chosen(graph)), buffer)

    @api_call("context_apply_binary_section")
    def apply_binary_section(
        self,
        section: Binary,
        graph: Graph | None = None,
        signal: Signal | None = None,
    ) -> dict[str, dict[str, Encoding]]:
        """Use the tensors of a section in finalized graphs, without preparing them again.

        Tensors that the section does not have are as in its base.

        Args:
            section: Bytes from `get_binary_section`, or the path of a file with them.
            graph: The only graph that is changed; by default all graphs of the section, of those
                that `enable_graphs` names.
            signal: Stops the work before it begins on a graph.

        Returns:
            The new encodings of inputs and outputs, by graph and name.

        Raises:
            FrontendError: The file cannot be read.
            ContainerError: The section is damaged, or of another base.
            BackendError: The context has no such graph, or a graph cannot be changed.
        """
        for capability in ("caching", "updates"):
            self.backend.require(capability, "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        file = open_binary(section, is_persistent=False, section=True)
        graphs = () if graph is None else self._chosen(graph)
        with controlled(signal) as control:
            self.executions.enter(control)
            try:
                return apply_section(file, self, graphs, control)
            finally:
                self.executions.leave(control)

    def _chosen(self, graph: Graph | None) -> tuple[Graph, ...]:
        """Return one graph, or all.

        Raises:
            BackendError: It is of another context.
        """
        if graph is None:
            return tuple(self._graphs.values())
        graph.require_alive()
        if graph.context is not self:
            raise BackendError(
                f"{graph.describe()} belongs to another context",
                code="CONTEXT_ERROR_INVALID_ARGUMENT",
            )
        return (graph,)

    # -- end -------------------------------------------------------------------------------------

    @api_call("context_free")
    def free(self) -> None:
        """Free the context, its graphs and memory handles after its executions have ended.

        Raises:
            BackendError: The call comes from an execution's `notify` while others wait, which would
                be a deadlock; or another thread is freeing the context.
        """
        self.executions.close()
        try:
            self._close()
        finally:
            self.backend.contexts.remove(self)
            self.invalidate()

    def unbind(self) -> None:
        """Drop the references of its graphs to buffers of earlier executions."""
        for graph in tuple(self._graphs.values()):
            graph.unbind()

    def close(self) -> None:
        """Free the context; a second call does nothing."""
        if not self.is_freed:
            self.free()

    def discard(self) -> None:
        """Free a context that the application has never had; called by the backend."""
        self._close()
        self.invalidate()

    def _close(self) -> None:
        """Close what the backend keeps: graphs and memory, then the context."""
        for handle in (*self._graphs.values(), *self._tensors.values(), *self._memory):
            handle.invalidate()
        self._graphs.clear()
        self.tokens.close()  # those whose handles the application has dropped
        with log_errors(f"closing a context of backend '{self.backend.name}'"):
            self.plugin.close()
