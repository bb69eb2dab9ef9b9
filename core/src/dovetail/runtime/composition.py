"""Composition of graphs: tensors and nodes are added, and tensors are updated."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dovetail.errors import BackendError, GraphError, OpError, Problem, suggest_name
from dovetail.ir import (
    Array,
    Blob,
    DataFormat,
    DType,
    Encoding,
    MemoryType,
    Node,
    Param,
    Shape,
    TensorKind,
)
from dovetail.ir import Graph as IrGraph
from dovetail.ir import Tensor as IrTensor
from dovetail.ir.check import raise_faults
from dovetail.ops import NodeView
from dovetail.runtime.config import GraphConfig, Priority, typed_config
from dovetail.runtime.context_tensors import ContextTensor, SharedTensors
from dovetail.runtime.contract import Prepared
from dovetail.runtime.handle import Handle, api_call
from dovetail.runtime.revisions import Revision
from dovetail.runtime.stored_graphs import StoredGraph
from dovetail.runtime.tensor import Tensor, owned_blob
from dovetail.runtime.updates import Update, checked_update

if TYPE_CHECKING:  # a graph belongs to a context, which imports it
    from dovetail.runtime.context import Context


class ComposedGraph(Handle):
    """A graph to which tensors and nodes are added: the base of `Graph`.

    Attributes:
        context: Its context.
        name: Its name.
        config: Its settings.
        stored: The graph in the context binary that it was loaded from; else None.
        revision: How its updateable tensors differ from those it was prepared with.
    """

    kind = "graph"
    invalid_code = "GRAPH_ERROR_INVALID_HANDLE"

    def __init__(
        self,
        context: Context,
        name: str,
        config: GraphConfig,
        stored: StoredGraph | None = None,
    ) -> None:
        super().__init__()
        self.context = context
        self.name = name
        self.config = self._checked_config(config)
        self.stored = stored
        self.revision = Revision() if stored is None else stored.revision
        self._ir = IrGraph(name) if stored is None else None
        self._views: dict[Node, NodeView] = {}
        self._shared = SharedTensors(name, lambda: self.ir, context)
        self._updates: dict[IrTensor, Update] = {}  # to be applied by `finalize`
        self._prepared: Prepared | None = None
        self._finalizing = threading.Lock()

    @property
    def ir(self) -> IrGraph:
        """The tensors and nodes added so far, or those in a context binary.

        Raises:
            BackendError: The context binary does not have them.
            ContainerError: They are damaged.
        """
        if self._ir is None:
            if self.stored is None:
                raise AssertionError("a graph without tensors and nodes")
            self._views = dict(self.stored.views())  # which may raise, at each call
            self._ir = self.stored.graph()
        return self._ir

    @property
    def priority(self) -> Priority:
        """Its own priority, or the context's."""
        own = self.config.graph_priority
        if own is None:
            return self.context.priority
        return Priority.of(own, f"config of graph '{self.name}'")

    def describe(self) -> str:
        """Return the graph's name for errors."""
        return f"graph '{self.name}'"

    @api_call("graph_create_tensor")
    def create_tensor(
        self,
        name: str,
        dtype: DType,
        shape: Shape,
        kind: TensorKind = TensorKind.NATIVE,
        encoding: Encoding | None = None,
        data: Blob | Array | None = None,
        source: str | None = None,
        source_perm: Shape | None = None,
        dynamic: Sequence[bool] = (),
        memory_type: MemoryType = MemoryType.RAW,
        data_format: DataFormat = DataFormat.DENSE,
    ) -> Tensor:
        """Add a tensor; see `dovetail.ir.Tensor` for the arguments.

        Args:
            name: Unique within the graph.
            dtype: Element type.
            shape: Static shape.
            kind: Its writer and reader.
            encoding: For fixed-point types.
            data: Data of a static tensor: stored bytes as a blob, or logical values as an array,
                which is copied unless its memory is read-only.
            source: Its name in the user's model.
            source_perm: Its layout change from there.
            dynamic: Whether the size of each axis may be less in an execution.
            memory_type: The memory in which the application passes its values.
            data_format: The layout of its values.

        Raises:
            BackendError: The graph is finalized.
            GraphError: The name is taken.
        """
        self._require_open()
        tensor = IrTensor(
            name,
            dtype,
            shape,
            kind,
            encoding=encoding,
            data=None if data is None else owned_blob(data, dtype),
            source=source,
            source_perm=source_perm,
            dynamic=dynamic,
            memory_type=memory_type,
            data_format=data_format,
        )
        return Tensor(self.ir.add_tensor(tensor))

    @api_call("graph_retrieve_tensor")
    def retrieve_tensor(self, name: str) -> Tensor:
        """Return a tensor of the graph by name.

        Raises:
            GraphError: The name is unknown.
            BackendError: The graph is of a context binary without models.
        """
        tensors = self.ir.tensors
        if name not in tensors:
            raise GraphError(
                f"tensor '{name}' not found",
                code="TENSOR_ERROR_DOES_NOT_EXIST",
                where=self.describe(),
                hint=suggest_name(name, tensors),
            )
        return Tensor(tensors[name])

    @api_call("graph_add_node")
    def add_node(
        self,
        name: str,
        package: str,
        op_type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        params: Mapping[str, Param] | None = None,
        sources: Sequence[str] | None = None,
    ) -> None:
        """Add a node.

        Args:
            name: Unique within the graph.
            package: Name of the op package.
            op_type: Name of the op in it.
            inputs: In the op's order; None for an omitted optional one.
            outputs: In the op's order.
            params: By name.
            sources: Names of the nodes of the user's model that it represents.

        Raises:
            BackendError: The graph is finalized.
            OpError: The node does not match its op; every reason is listed.
            GraphError: A tensor belongs to another graph, or has a producer already.
        """
        self._require_open()
        with self._shared.adding():
            read = [self._shared.tensor(t, is_written=False) for t in inputs]
            written = [self._shared.tensor(t, is_written=True) for t in outputs]
            node = Node(
                name,
                package,
                op_type,
                read,
                [t for t in written if t is not None],
                params,
                sources=sources,
            )
            self._add_checked(node)

    def compose(self, graph: IrGraph, shared: Mapping[str, ContextTensor]) -> None:
        """Add the tensors and nodes of a graph with the same calls as an application.

        Args:
            graph: The graph.
            shared: Context tensors by name, which replace the graph's own tensors.

        Raises:
            GraphError: Nodes do not match their ops; every reason is listed.
        """
        tensors: dict[IrTensor, Tensor] = {
            t: shared[t.name]
            if t.name in shared
            else self.create_tensor(
                t.name,
                t.dtype,
                t.shape,
                t.kind,
                t.encoding,
                t.data,
                t.source,
                t.source_perm,
                t.dynamic,
                t.memory_type,
                t.data_format,
            )
            for t in graph.tensors.values()
        }
        faults: list[Problem] = []
        for node in graph.nodes:
            try:
                self.add_node(
                    node.name,
                    node.package,
                    node.op_type,
                    [None if t is None else tensors[t] for t in node.inputs],
                    [tensors[t] for t in node.outputs],
                    node.params,
                    node.sources,
                )
            except OpError as error:
                faults += [
                    Problem(p.message, p.where or error.where, p.hint) for p in error.problems
                ]
        raise_faults(graph, faults)

    def _add_checked(self, node: Node) -> None:
        view, faults = self.context.backend.checked(node)
        if view is None:
            raise OpError(
                "the node does not match its op",
                code="GRAPH_ERROR_INVALID_OP_CONFIG",
                where=node.where,
                problems=[Problem(f.message, hint=f.hint) for f in faults],
            )
        self._views[self.ir.add_node(node)] = view

    @api_call("graph_set_config")
    def set_config(self, config: GraphConfig | Mapping[str, Any]) -> None:
        """Change the graph's config.

        Raises:
            ConfigError: The config is wrong.
            BackendError: The config sets a priority, and the backend has none.
        """
        where = f"config of graph '{self.name}'"
        settings = typed_config(config, self.context.backend.plugin.configs.graph, where)
        self.config = self._checked_config(settings)

    @api_call("graph_update_tensor")
    def update_tensor(
        self,
        tensor: Tensor,
        data: Blob | Array | None = None,
        encoding: Encoding | None = None,
    ) -> None:
        """Replace data or encoding of an UPDATEABLE tensor, also after `finalize`.

        The graph must be finalized (again) before it is executed; until then, executions that are
        queued use the old values.

        Args:
            tensor: A tensor of the graph.
            data: New data of a static tensor, as for `create_tensor`; None to keep them.
            encoding: The new encoding; None to keep it.

        Raises:
            BackendError: The backend does not support updates, or the graph is being finalized.
            GraphError: The tensor is not in the graph or not UPDATEABLE, or the update does not
                match it; every reason is listed.
        """
        self.context.backend.require("updates", "TENSOR_ERROR_UNSUPPORTED_FEATURE")
        tensor.require_alive()
        if self.ir.tensors.get(tensor.name) is not tensor.ir:
            raise GraphError(
                f"{tensor.describe()} is not a tensor of this graph",
                code="TENSOR_ERROR_DOES_NOT_EXIST",
                where=self.describe(),
                hint="update a context tensor with `Context.update_tensor`",
            )
        self.require_updateable()
        self.stage(
            {tensor.ir: checked_update(tensor.ir, data, encoding, self._updates.get(tensor.ir))}
        )

    def find_shared(self, tensor: ContextTensor) -> IrTensor | None:
        """Return the graph's tensor for a context tensor, None if it does not use it."""
        return self._shared.find(tensor)

    def require_updateable(self) -> None:
        """Raise if the graph is being finalized.

        Raises:
            BackendError: It is.
        """
        if self._finalizing.locked():
            self._raise_unchangeable("is being finalized")

    def stage(self, updates: Mapping[IrTensor, Update]) -> None:
        """Record checked updates, which the next `finalize` applies; called by the context, too."""
        self._updates |= updates

    # -- inside ----------------------------------------------------------------------------------

    def _checked_config(self, config: GraphConfig) -> GraphConfig:
        if config.graph_priority is not None:
            self.context.backend.require("priority", "GRAPH_ERROR_UNSUPPORTED_FEATURE")
            Priority.of(config.graph_priority, f"config of graph '{self.name}'")
        return config

    def _require_open(self) -> None:
        if self._prepared is not None:
            self._raise_unchangeable("is finalized")
        if self._finalizing.locked():
            self._raise_unchangeable("is being finalized")

    def _raise_unchangeable(self, state: str) -> NoReturn:
        raise BackendError(
            f"graph '{self.name}' {state} and cannot be changed",
            code="GRAPH_ERROR_GRAPH_FINALIZED",
            hint="create another graph",
        )
