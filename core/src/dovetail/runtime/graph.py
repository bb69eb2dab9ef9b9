"""Graph handles: composed, finalized, executed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dovetail import ir
from dovetail.errors import BackendError, GraphError, OpError, Problem, UnsupportedOpError
from dovetail.ir import Array, Blob, DType, Encoding, Param, Shape, TensorKind
from dovetail.ops import find_op_faults, node_faults
from dovetail.plugins.hooks import hooks
from dovetail.runtime.buffers import Buffer, checked_inputs, checked_outputs
from dovetail.runtime.config import GraphConfig, Priority, typed_config
from dovetail.runtime.contract import NodeView, Prepared, Watch
from dovetail.runtime.handle import Handle, api_call, current_call
from dovetail.runtime.profile import (
    AnnouncedWatch,
    EventType,
    NodeWatch,
    Profile,
    ProfileEvent,
    ProfileLevel,
)
from dovetail.runtime.queue import Execution
from dovetail.runtime.signal import Signal, controlled
from dovetail.runtime.tensor import Tensor

if TYPE_CHECKING:  # a graph belongs to a context, which imports it
    from dovetail.runtime.context import Context

Notify = Callable[[BaseException | None], None]


class Graph(Handle):
    """A graph of a context: tensors and nodes are added, then it is finalized, then executed.

    Attributes:
        context: What it belongs to.
        ir: What has been added.
    """

    kind = "graph"
    invalid_code = "GRAPH_ERROR_INVALID_HANDLE"

    def __init__(self, context: Context, name: str, config: GraphConfig) -> None:
        super().__init__()
        self.context = context
        self.ir = ir.Graph(name)
        self._config = config
        self._prepared: Prepared | None = None
        self._lock = threading.Lock()  # a prepared graph runs once at a time
        self._idle = threading.Condition()
        self._waiting = 0  # asynchronous executions that have not ended

    # -- reading ---------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name."""
        return self.ir.name

    @property
    def inputs(self) -> tuple[ir.Tensor, ...]:
        """Tensors that the application writes."""
        return self.ir.inputs

    @property
    def outputs(self) -> tuple[ir.Tensor, ...]:
        """Tensors that the application reads."""
        return self.ir.outputs

    @property
    def is_finalized(self) -> bool:
        """Whether it can be executed."""
        return self._prepared is not None

    @property
    def priority(self) -> Priority:
        """Its own, or the context's."""
        if self._config.graph_priority is None:
            return self.context.priority
        return Priority.of(self._config.graph_priority, f"config of graph '{self.name}'")

    def describe(self) -> str:
        """Names the graph."""
        return f"graph '{self.name}'"

    # -- composing -------------------------------------------------------------------------------

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
    ) -> Tensor:
        """Adds a tensor; see `dovetail.ir.Tensor` for the arguments.

        Args:
            name: Unique within the graph.
            dtype: Element type.
            shape: Static extents.
            kind: Who writes and reads it.
            encoding: For fixed-point types.
            data: Stored bytes of a static tensor; an array is taken as logical values.
            source: Its name in the user's model.
            source_perm: Its layout change from there.

        Raises:
            BackendError: The graph is finalized.
            GraphError: The name is taken.
        """
        self._require_open()
        blob = data if data is None or isinstance(data, Blob) else ir.pack(data, dtype)
        tensor = ir.Tensor(
            name,
            dtype,
            shape,
            kind,
            encoding=encoding,
            data=blob,
            source=source,
            source_perm=source_perm,
        )
        return Tensor(self.ir.add_tensor(tensor))

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
        """Adds a node.

        Args:
            name: Unique within the graph.
            package: Name of the op package.
            op_type: Name of the op in it.
            inputs: In the op's order; None for a left-out optional one.
            outputs: In the op's order.
            params: By name.
            sources: Names of the nodes of the user's model that it stands for.

        Raises:
            BackendError: The graph is finalized.
            OpError: The node does not fit its op; every reason is listed.
            GraphError: A tensor belongs to another graph, or has a producer already.
        """
        self._require_open()
        node = ir.Node(
            name,
            package,
            op_type,
            [None if t is None else t.ir for t in inputs],
            [t.ir for t in outputs],
            params,
            sources=sources,
        )
        if faults := node_faults(node, self.context.backend.ops):
            raise OpError(
                "the node does not fit its op",
                code="GRAPH_ERROR_INVALID_OP_CONFIG",
                where=node.where,
                problems=[Problem(f.message, hint=f.hint) for f in faults],
            )
        self.ir.add_node(node)

    @api_call("graph_set_config")
    def set_config(self, config: GraphConfig | Mapping[str, Any]) -> None:
        """Changes the graph's config.

        Raises:
            ConfigError: It does not fit.
            BackendError: It asks for a priority, which the backend does not have.
        """
        self._config = typed_config(config, GraphConfig, f"config of graph '{self.name}'")
        if self._config.graph_priority is not None:
            self.context.backend.require("priority", "GRAPH_ERROR_UNSUPPORTED_FEATURE")
            Priority.of(self._config.graph_priority, f"config of graph '{self.name}'")

    @api_call("graph_finalize")
    def finalize(self, profile: Profile | None = None, signal: Signal | None = None) -> None:
        """Makes the graph ready to run.

        Args:
            profile: Takes the time it took.
            signal: Not looked at by backends that prepare in one piece; a timeout that is over by
                the end is an error all the same.

        Raises:
            BackendError: The graph is finalized, or the backend failed.
            GraphError: The graph is not well formed; every fault is listed.
            UnsupportedOpError: The backend does not run some nodes; all are listed.
        """
        self._require_open()
        backend = self.context.backend
        if faults := find_op_faults(self.ir, backend.ops):
            raise GraphError(
                f"{len(faults)} fault(s) found", where=self.describe(), problems=faults
            )
        self._require_support()
        start = time.perf_counter()
        with controlled(signal, None) as control:
            prepared = backend.plugin.prepare(self.ir, backend.options, self.context.weights)
            control.check()
        self._prepared = prepared
        if profile is not None:
            took = (time.perf_counter() - start) * 1e6
            profile.require_alive()
            profile.add(ProfileEvent(EventType.FINALIZE, self.name, took))

    # -- executing -------------------------------------------------------------------------------

    @api_call("graph_execute")
    def execute(
        self,
        inputs: Mapping[str, Buffer],
        outputs: Mapping[str, Buffer] | None = None,
        profile: Profile | None = None,
        signal: Signal | None = None,
        watch: Watch | None = None,
    ) -> dict[str, Array]:
        """Runs the graph once and waits.

        Args:
            inputs: By tensor name: arrays or registered memory, stored values.
            outputs: Likewise, written in place; fresh arrays if left out.
            profile: Takes the times.
            signal: Stops the run.
            watch: Told of each step, in this process only.

        Returns:
            The outputs by tensor name, stored values.

        Raises:
            BackendError: The graph is not finalized, the buffers do not fit, the run was stopped,
                or the backend failed.
        """
        prepared = self._require_finalized()
        given = checked_inputs(self.ir, inputs)
        taken = checked_outputs(self.ir, outputs)
        self._run(prepared, given, taken, profile, signal, watch, queued_us=None)
        return taken

    @api_call("graph_execute_async")
    def execute_async(
        self,
        inputs: Mapping[str, Buffer],
        outputs: Mapping[str, Buffer],
        profile: Profile | None = None,
        signal: Signal | None = None,
        notify: Notify | None = None,
    ) -> Execution:
        """Puts a run into the device's queue.

        Args:
            inputs: As for `execute`; must stay unchanged until the end.
            outputs: As for `execute`; valid at the end.
            profile: Takes the times, the wait among them.
            signal: Stops the run, also while it waits.
            notify: Called in the queue's thread at the end, with the error or None.

        Returns:
            The future of the run.

        Raises:
            BackendError: As for `execute`, or the queue is full.
        """
        backend = self.context.backend
        backend.require("asynchronous", "GRAPH_ERROR_UNSUPPORTED_FEATURE")
        prepared = self._require_finalized()
        given = checked_inputs(self.ir, inputs)
        taken = checked_outputs(self.ir, outputs)
        self.context.enter_queue()
        with self._idle:
            self._waiting += 1
        execution, queued, call = Execution(), time.perf_counter(), current_call()

        def run() -> None:
            error: BaseException | None = None
            try:
                waited = (time.perf_counter() - queued) * 1e6
                self._run(prepared, given, taken, profile, signal, None, queued_us=waited)
            except Exception as failure:  # noqa: BLE001 - travels to who waits
                error = failure
            with self._idle:
                self._waiting -= 1
                self._idle.notify_all()
            self.context.leave_queue()
            if call is not None:
                hooks.api_complete(call.failed(error) if error else call.returned(taken))
            execution.finish(error)
            if notify is not None:
                notify(error)

        self.context.device.queue.put(run, self.priority)
        return execution

    def release(self) -> None:
        """Ends the handle, after the executions under way; called by the context."""
        with self._idle:
            self._idle.wait_for(lambda: self._waiting == 0)
        self._prepared = None
        self._freed = True

    # -- inside ----------------------------------------------------------------------------------

    def _run(
        self,
        prepared: Prepared,
        inputs: dict[str, Array],
        outputs: dict[str, Array],
        profile: Profile | None,
        signal: Signal | None,
        watch: Watch | None,
        *,
        queued_us: float | None,
    ) -> None:
        nodes: NodeWatch | None = None
        if profile is not None:
            profile.require_alive()
            if profile.level is ProfileLevel.DETAILED and watch is None:
                watch = nodes = NodeWatch()
        if watch is not None and hooks.active:
            watch = AnnouncedWatch(self.name, watch)
        with self._lock, controlled(signal, watch) as control:
            start = time.perf_counter()
            control.check()
            prepared.run(inputs, outputs, control)
            took = (time.perf_counter() - start) * 1e6
        if profile is not None:
            parts = tuple(nodes.events) if nodes is not None else ()
            if queued_us is not None:
                wait = ProfileEvent(EventType.EXECUTE_QUEUE_WAIT, self.name, queued_us)
                parts = (wait, *parts)
            profile.add(ProfileEvent(EventType.EXECUTE, self.name, took, children=parts))

    def _require_open(self) -> None:
        if self._prepared is not None:
            raise BackendError(
                f"graph '{self.name}' is finalized and cannot be changed",
                code="GRAPH_ERROR_GRAPH_FINALIZED",
                hint="create another graph",
            )

    def _require_finalized(self) -> Prepared:
        if self._prepared is None:
            raise BackendError(
                f"graph '{self.name}' is not finalized",
                code="GRAPH_ERROR_GRAPH_NOT_FINALIZED",
                hint="call finalize() before execute()",
            )
        return self._prepared

    def _require_support(self) -> None:
        backend = self.context.backend
        verdicts = [
            (node, backend.plugin.validate(NodeView.of(node, backend.ops)))
            for node in self.ir.nodes
        ]
        refused = [Problem(str(v), node.where) for node, v in verdicts if not v.ok]
        if refused:
            raise UnsupportedOpError(
                f"backend '{backend.name}' does not run {len(refused)} of {len(verdicts)} nodes",
                where=self.describe(),
                problems=refused,
            )
