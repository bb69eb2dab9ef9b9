"""Graph handles: composition, finalization, execution."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

from dovetail import ir
from dovetail.errors import BackendError, OpError, Problem
from dovetail.ir import Array, Blob, DType, Encoding, Param, Shape, TensorKind
from dovetail.ops import NOTHING, NodeView, Observed
from dovetail.plugins.hooks import hooks
from dovetail.runtime.buffers import Buffer, Results, checked_buffers
from dovetail.runtime.config import GraphConfig, Priority, typed_config
from dovetail.runtime.contract import Binding, Done, Prepared, RunControl, Watch
from dovetail.runtime.finalization import checked_graph, close_prepared, prepare_graph
from dovetail.runtime.handle import Handle, api_call, current_call
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import EventType, ProfileEvent
from dovetail.runtime.profile import Measurement, Profile
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
        config: Its settings.
    """

    kind = "graph"
    invalid_code = "GRAPH_ERROR_INVALID_HANDLE"

    def __init__(self, context: Context, name: str, config: GraphConfig) -> None:
        super().__init__()
        self.context = context
        self.ir = ir.Graph(name)
        self.config = self._checked_config(config)
        self._views: dict[ir.Node, NodeView] = {}
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
        if self._prepared is not None:
            return self._interface
        return Interface.of(self.name, self.ir.inputs, self.ir.outputs)

    @property
    def is_finalized(self) -> bool:
        """True if it can be executed."""
        return self._prepared is not None

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

    @api_call("graph_finalize")
    def finalize(
        self,
        profile: Profile | None = None,
        signal: Signal | None = None,
        observed: Observed = NOTHING,
    ) -> None:
        """Prepare the graph for execution.

        Args:
            profile: Records the duration.
            signal: Stops the preparation, at its end at the latest: a backend may prepare a graph
                without interruption.
            observed: Tensors that a watch of later runs receives, besides the outputs.

        Raises:
            BackendError: The graph is finalized, tensors are to be observed on a backend that does
                not support watching, the preparation was stopped, or the backend failed.
            GraphError: The graph is not well formed, or an observed tensor is unknown; every fault
                is listed.
            UnsupportedOpError: The backend does not support some nodes; all are listed.
        """
        self._require_open()
        if profile is not None:
            profile.require_alive()
        if observed:  # otherwise they would be observed in vain
            self.context.backend.require("watch", "GRAPH_ERROR_UNSUPPORTED_FEATURE")
        if not self._finalizing.acquire(blocking=False):
            self._raise_unchangeable("is being finalized")
        try:
            self.context.enter(queued=False)  # `Context.free` waits for the end
        except BaseException:
            self._finalizing.release()
            raise
        try:
            if self._prepared is not None:  # another thread was quicker
                self._raise_unchangeable("is finalized")
            start = time.perf_counter()
            parts: list[ProfileEvent] = []
            record = None if profile is None else parts.append
            checked = checked_graph(self.ir, self._views, observed)
            interface = Interface.of(self.name, checked.inputs, checked.outputs)
            results, guards = Results(interface), _guards(self.ir)
            prepared = prepare_graph(checked, self.context, self.config, signal, record)
            self._interface, self._results, self._guards = interface, results, guards
            self._prepared = prepared
        finally:
            self._finalizing.release()
            self.context.leave(queued=False)
        if profile is not None:
            took = (time.perf_counter() - start) * 1e6
            profile.add(ProfileEvent(EventType.FINALIZE, self.name, took, children=tuple(parts)))

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
        given, taken = checked_buffers(self._interface, inputs, outputs, self.context)
        measured = Measurement(self.name, profile, watch)
        tokens, held = self.context.tokens, None
        self.context.enter(queued=False)
        try:
            if tokens.registered:
                held = tokens.hold(given, taken)
            control = take_control(signal, measured.watch)
            try:
                return self._run(prepared, given, taken, control, measured)
            finally:
                release_control(signal)
        finally:
            if held:
                tokens.let_go(held)
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
        given, taken = checked_buffers(self._interface, inputs, outputs, self.context)
        measured = Measurement(self.name, profile, None)
        execution, call, queued = Execution(), current_call(), time.perf_counter()
        overlaps = self.context.backend.capabilities.overlap
        tokens = self.context.tokens

        def run() -> None:
            waited = (time.perf_counter() - queued) * 1e6
            if overlaps:
                self._submit(prepared, given, taken, control, measured, waited, done)
                return
            error: BaseException | None = None
            try:
                self._run(prepared, given, taken, control, measured, waited_us=waited)
            except BaseException as failure:  # noqa: BLE001 - travels to who waits
                error = failure
            done(error)

        def done(error: BaseException | None) -> None:
            release_control(signal)
            tokens.let_go(held)
            self.context.leave_queue()  # a waiting caller can queue another run at once
            if call is not None:
                hooks.api_complete(call.failed(error) if error else call.returned(taken))
            execution.finish(error)
            thread = threading.get_ident()
            self.context.finishing.add(thread)
            try:
                if notify is not None:
                    notify(error)
            except Exception:
                log.exception("notify of graph '%s' failed", self.name)
            finally:
                self.context.finishing.discard(thread)
                self.context.leave(queued=True)

        with ExitStack() as undo:  # if the queue does not accept the execution
            self.context.enter(queued=True)
            undo.callback(self.context.leave, queued=True)
            undo.callback(self.context.leave_queue)
            held = tokens.hold(given, taken)
            undo.callback(tokens.let_go, held)
            control = take_control(signal, measured.watch)
            undo.callback(release_control, signal)
            self.context.device.queue.put(run, self.priority)
            undo.pop_all()
        return execution

    def invalidate(self) -> None:
        """Invalidate the handle and release the prepared graph; called by the context."""
        prepared, self._prepared = self._prepared, None
        super().invalidate()
        if prepared is not None:
            close_prepared(prepared, self.name)

    # -- inside ----------------------------------------------------------------------------------

    def _run(
        self,
        prepared: Prepared,
        inputs: dict[str, Binding],
        outputs: dict[str, Binding] | None,
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

    def _submit(
        self,
        prepared: Prepared,
        inputs: dict[str, Binding],
        outputs: dict[str, Binding] | None,
        control: RunControl,
        measured: Measurement,
        waited_us: float,
        done: Done,
    ) -> None:
        """Begin a run of a backend that overlaps them."""
        start = time.perf_counter()
        end = threading.Lock()  # never released: an execution ends once

        def ended(error: BaseException | None) -> None:
            if not end.acquire(blocking=False):
                log.error("an execution of graph '%s' ended twice", self.name, exc_info=error)
                return
            if error is None:
                took = (time.perf_counter() - start) * 1e6
                try:
                    control.check()  # a timeout may have been exceeded in the last step
                    measured.note(took, waited_us=waited_us)
                except BackendError as late:
                    error = late
            done(error)

        try:
            control.check()
            for guard in self._guards:
                guard()
            prepared.submit(inputs, outputs or {}, control, ended)
        except BaseException as failure:  # noqa: BLE001 - travels to who waits
            ended(failure)

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
