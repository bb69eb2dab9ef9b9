"""Graph handles: composition, finalization, execution."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dovetail import ir
from dovetail.errors import BackendError, OpError, Problem
from dovetail.ir import Array, Blob, DType, Encoding, Param, Shape, TensorKind
from dovetail.ops import node_faults
from dovetail.plugins.hooks import hooks
from dovetail.runtime.buffers import Buffer, Interface, Results, checked_buffers
from dovetail.runtime.config import GraphConfig, Priority, typed_config
from dovetail.runtime.contract import Prepared, RunControl, Watch
from dovetail.runtime.finalization import prepare_graph
from dovetail.runtime.handle import Handle, api_call, current_call
from dovetail.runtime.profile import EventType, Measurement, Profile, ProfileEvent
from dovetail.runtime.queue import Execution
from dovetail.runtime.signal import Signal, release_control, take_control
from dovetail.runtime.tensor import Tensor

if TYPE_CHECKING:  # a graph belongs to a context, which imports it
    from dovetail.runtime.context import Context

log = logging.getLogger("dovetail.runtime")

Notify = Callable[[BaseException | None], None]


class Graph(Handle):
    """A graph of a context: tensors and nodes are added, then it is finalized, then executed.

    Attributes:
        context: Its context.
        ir: The tensors and nodes added so far.
    """

    kind = "graph"
    invalid_code = "GRAPH_ERROR_INVALID_HANDLE"

    def __init__(self, context: Context, name: str, config: GraphConfig) -> None:
        super().__init__()
        self.context = context
        self.ir = ir.Graph(name)
        self._priority = self._checked_priority(config)
        self._prepared: Prepared | None = None
        self._interface = Interface(name, {}, {})
        self._results = Results(self._interface)
        self._guards: tuple[Callable[[], None], ...] = ()  # checks of mapped files that runs read
        self._finalizing = threading.Lock()
        self._running = threading.Lock()  # a prepared graph runs once at a time

    # -- reading ---------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name."""
        return self.ir.name

    @property
    def inputs(self) -> tuple[ir.Tensor, ...]:
        """Tensors that the application writes."""
        return tuple(end.tensor for end in self.interface.inputs.values())

    @property
    def outputs(self) -> tuple[ir.Tensor, ...]:
        """Tensors that the application reads."""
        return tuple(end.tensor for end in self.interface.outputs.values())

    @property
    def interface(self) -> Interface:
        """The inputs and outputs for the application."""
        return Interface.of(self.ir) if self._prepared is None else self._interface

    @property
    def is_finalized(self) -> bool:
        """True if it can be executed."""
        return self._prepared is not None

    @property
    def priority(self) -> Priority:
        """Its own priority, or the context's."""
        return self.context.priority if self._priority is None else self._priority

    def describe(self) -> str:
        """Return the graph's name for errors."""
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
        """Add a tensor; see `dovetail.ir.Tensor` for the arguments.

        Args:
            name: Unique within the graph.
            dtype: Element type.
            shape: Static shape.
            kind: Its writer and reader.
            encoding: For fixed-point types.
            data: Data of a static tensor: stored bytes as a blob, or logical values as an array.
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
                "the node does not match its op",
                code="GRAPH_ERROR_INVALID_OP_CONFIG",
                where=node.where,
                problems=[Problem(f.message, hint=f.hint) for f in faults],
            )
        self.ir.add_node(node)

    @api_call("graph_set_config")
    def set_config(self, config: GraphConfig | Mapping[str, Any]) -> None:
        """Change the graph's config.

        Raises:
            ConfigError: The config is wrong.
            BackendError: The config sets a priority, and the backend has none.
        """
        where = f"config of graph '{self.name}'"
        self._priority = self._checked_priority(typed_config(config, GraphConfig, where))

    @api_call("graph_finalize")
    def finalize(self, profile: Profile | None = None, signal: Signal | None = None) -> None:
        """Prepare the graph for execution.

        Args:
            profile: Records the duration.
            signal: Checked at the end at the latest, since a backend may prepare a graph without
                interruption.

        Raises:
            BackendError: The graph is finalized, or the backend failed.
            GraphError: The graph is not well formed; every fault is listed.
            UnsupportedOpError: The backend does not support some nodes; all are listed.
        """
        self._require_open()
        if profile is not None:
            profile.require_alive()
        if not self._finalizing.acquire(blocking=False):
            self._raise_unchangeable("is being finalized")
        try:
            if self._prepared is not None:  # another thread was quicker
                self._raise_unchangeable("is finalized")
            start = time.perf_counter()
            prepared = prepare_graph(self.ir, self.context, signal)
            self._interface = Interface.of(self.ir)
            self._results = Results(self._interface)
            self._guards = _guards(self.ir)
            self._prepared = prepared
        finally:
            self._finalizing.release()
        if profile is not None:
            took = (time.perf_counter() - start) * 1e6
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
        """Run the graph once and wait for the end.

        Args:
            inputs: By tensor name: arrays or registered memory, stored values.
            outputs: Arrays of the same form, written in place; by default new arrays.
            profile: Records the times.
            signal: Stops the run.
            watch: Receives each step, in this process only.

        Returns:
            The outputs by tensor name, stored values.

        Raises:
            BackendError: The graph is not finalized, the buffers do not match, the backend does not
                support watching, the run was stopped, or the backend failed.
            ContainerError: A file that the run reads weights from has changed.
        """
        if watch is not None:  # otherwise it would look like a run without steps
            self.context.backend.require("watch", "GRAPH_ERROR_UNSUPPORTED_FEATURE")
        prepared = self._require_finalized()
        given, taken = checked_buffers(self._interface, inputs, outputs)
        measured = Measurement(self.name, profile, watch)
        self.context.enter(queued=False)
        try:
            control = take_control(signal, measured.watch)
            try:
                return self._run(prepared, given, taken, control, measured)
            finally:
                release_control(signal)
        finally:
            self.context.leave(queued=False)

    @api_call("graph_execute_async")
    def execute_async(
        self,
        inputs: Mapping[str, Buffer],
        outputs: Mapping[str, Buffer],
        profile: Profile | None = None,
        signal: Signal | None = None,
        notify: Notify | None = None,
    ) -> Execution:
        """Queue a run on the device.

        Args:
            inputs: As for `execute`; must stay unchanged until the end.
            outputs: As for `execute`; valid at the end.
            profile: Records the times, including the wait.
            signal: Stops the run, also while it waits.
            notify: Called in the queue's thread at the end, with the error or None.

        Returns:
            The future of the run.

        Raises:
            BackendError: As for `execute`, or the queue is full.
        """
        self.context.backend.require("asynchronous", "GRAPH_ERROR_UNSUPPORTED_FEATURE")
        prepared = self._require_finalized()
        given, taken = checked_buffers(self._interface, inputs, outputs)
        measured = Measurement(self.name, profile, None)
        execution, call, queued = Execution(), current_call(), time.perf_counter()
        self.context.enter(queued=True)

        def run() -> None:
            error: BaseException | None = None
            try:
                waited = (time.perf_counter() - queued) * 1e6
                self._run(prepared, given, taken, control, measured, waited_us=waited)
            except BaseException as failure:  # noqa: BLE001 - travels to who waits
                error = failure
            release_control(signal)
            self.context.leave_queue()  # a waiting caller can queue another run at once
            if call is not None:
                hooks.api_complete(call.failed(error) if error else call.returned(taken))
            execution.finish(error)
            try:
                if notify is not None:
                    notify(error)
            except Exception:
                log.exception("notify of graph '%s' failed", self.name)
            finally:
                self.context.leave(queued=True)

        try:
            control = take_control(signal, measured.watch)
            try:
                self.context.device.queue.put(run, self.priority)
            except BaseException:
                release_control(signal)
                raise
        except BaseException:
            self.context.leave_queue()
            self.context.leave(queued=True)
            raise
        return execution

    def invalidate(self) -> None:
        """Invalidate the handle and release the prepared graph; called by the context."""
        self._prepared = None
        super().invalidate()

    # -- inside ----------------------------------------------------------------------------------

    def _run(
        self,
        prepared: Prepared,
        inputs: dict[str, Array],
        outputs: dict[str, Array] | None,
        control: RunControl,
        measured: Measurement,
        *,
        waited_us: float | None = None,
    ) -> dict[str, Array]:
        """Run once and return the outputs."""
        with self._running:
            control.check()
            for guard in self._guards:
                guard()
            arrays = self._results.arrays() if outputs is None else outputs
            start = time.perf_counter()
            prepared.run(inputs, arrays, control)
            took = (time.perf_counter() - start) * 1e6
            if outputs is None:
                outputs = self._results.taken(arrays)
        control.check()  # a timeout may have been exceeded in the last step
        measured.note(took, waited_us=waited_us)
        return outputs

    def _checked_priority(self, config: GraphConfig) -> Priority | None:
        if config.graph_priority is None:
            return None
        self.context.backend.require("priority", "GRAPH_ERROR_UNSUPPORTED_FEATURE")
        return Priority.of(config.graph_priority, f"config of graph '{self.name}'")

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

    def _require_finalized(self) -> Prepared:
        if self._prepared is None:
            raise BackendError(
                f"graph '{self.name}' is not finalized",
                code="GRAPH_ERROR_GRAPH_NOT_FINALIZED",
                hint="call finalize() before execute()",
            )
        return self._prepared


def _guards(graph: ir.Graph) -> tuple[Callable[[], None], ...]:
    """Return a check for each mapped file whose bytes a prepared graph still uses."""
    params = (p for node in graph.nodes for p in node.params.values() if isinstance(p, ir.Tensor))
    blobs = (t.data for t in (*graph.tensors.values(), *params) if t.data is not None)
    return tuple({guard: None for blob in blobs if (guard := blob.guard) is not None})
