"""Graph handles: finalization and execution."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from dovetail import ir
from dovetail.errors import BackendError
from dovetail.ir import Array
from dovetail.ops import NOTHING, Observed
from dovetail.plugins.hooks import hooks
from dovetail.runtime.buffers import Buffer, Results, checked_buffers
from dovetail.runtime.composition import ComposedGraph
from dovetail.runtime.config import GraphConfig
from dovetail.runtime.contract import Binding, Done, Prepared, RunControl, Watch
from dovetail.runtime.finalization import (
    checked_graph,
    close_prepared,
    prepare_graph,
    update_graph,
    updated_views,
)
from dovetail.runtime.handle import api_call, current_call
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import EventType, ProfileEvent, Recorder
from dovetail.runtime.placement import Placement
from dovetail.runtime.profile import Measurement, Profile
from dovetail.runtime.queue import Execution, InProgress
from dovetail.runtime.signal import Signal, controlled, release_control, take_control
from dovetail.runtime.updates import applied

if TYPE_CHECKING:  # a graph belongs to a context, which imports it
    from dovetail.runtime.context import Context

log = logging.getLogger("dovetail.runtime")

Notify = Callable[[BaseException | None], None]


class Graph(ComposedGraph):
    """A graph of a context: tensors and nodes are added, then it is finalized, then executed.

    Attributes:
        placement: What runs on which backend, once the backend `hetero` has prepared it; else None.
    """

    def __init__(self, context: Context, name: str, config: GraphConfig) -> None:
        super().__init__(context, name, config)
        self.placement: Placement | None = None
        self._interface = Interface(name, {}, {})
        self._results = Results(self._interface)
        self._guards: tuple[Callable[[], None], ...] = ()  # checks of mapped files that runs read
        self._running = threading.Lock()  # a prepared graph runs once at a time
        self._submitted = InProgress()  # of a backend that overlaps executions

    # -- reading ---------------------------------------------------------------------------------

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
        """The inputs and outputs for the application, without context tensors."""
        if self._prepared is not None:
            return self._interface
        return self._own_interface(self.ir.inputs, self.ir.outputs)

    @property
    def is_finalized(self) -> bool:
        """True if it can be executed."""
        return self._prepared is not None and not self._updates

    @api_call("graph_finalize")
    def finalize(
        self,
        profile: Profile | None = None,
        signal: Signal | None = None,
        observed: Observed = NOTHING,
        outputs: Sequence[str] = (),
    ) -> None:
        """Prepare the graph for execution; a finalized one after updates of its tensors.

        If applying updates fails, the graph keeps them and can be executed when `finalize` has
        succeeded, for instance after other updates.

        Args:
            profile: Records the duration.
            signal: Stops the preparation, at its end at the latest: a backend may prepare a graph
                without interruption.
            observed: Tensors that a watch of later runs receives, besides the outputs; after an
                update those of the first time.
            outputs: Names of tensors that nodes write, which become outputs too; after an update
                those of the first time.

        Raises:
            BackendError: The graph is finalized and has no updates, tensors are to be observed on a
                backend that does not support watching, the preparation was stopped, or the backend
                failed.
            GraphError: The graph is not well formed, or a tensor to observe or to read is unknown;
                every fault is listed.
            UnsupportedOpError: The backend does not support some nodes; all are listed.
        """
        if not self._updates:
            self._require_open()
        if profile is not None:
            profile.require_alive()
        if observed:  # otherwise they would be observed in vain
            self.context.backend.require("watch", "GRAPH_ERROR_UNSUPPORTED_FEATURE")
        if not self._finalizing.acquire(blocking=False):
            self._raise_unchangeable("is being finalized")
        try:
            if self._prepared is not None and not self._updates:  # another thread was quicker
                self._raise_unchangeable("is finalized")
            start = time.perf_counter()
            record = None if profile is None else profile.recorder()
            with controlled(signal) as control:
                self.context.enter(control)  # `Context.free` waits for the end
                try:
                    self._prepare(observed, outputs, control, record)
                finally:
                    self.context.leave(control)
        finally:
            self._finalizing.release()
        if profile is not None and record is not None:
            event = ProfileEvent(
                EventType.FINALIZE,
                self.name,
                (time.perf_counter() - start) * 1e6,
                children=tuple(record.events),
                start_us=start * 1e6,
                backend=self.context.backend.name,
            )
            profile.add(event)

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
        context = self.context
        given, taken = checked_buffers(self._interface, inputs, outputs, context, self._shared)
        measured = Measurement.of(self, profile, watch)
        watch, record = (None, None) if measured is None else (measured.watch, measured.record)
        tokens, held = context.tokens, None
        control = take_control(signal, watch, record)
        try:
            context.enter(control)
            try:
                if tokens.registered:
                    held = tokens.hold(given, taken)
                return self._run(prepared, given, taken, control, measured)
            finally:
                if held:
                    tokens.let_go(held)
                context.leave(control)
        finally:
            release_control(signal)

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
        given, taken = checked_buffers(self._interface, inputs, outputs, self.context, self._shared)
        measured = Measurement.of(self, profile, None)
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
                self.context.end_queued()

        with ExitStack() as undo:  # if the queue does not accept the execution
            self.context.enter_queue()
            undo.callback(self.context.end_queued)
            undo.callback(self.context.leave_queue)
            held = tokens.hold(given, taken)
            undo.callback(tokens.let_go, held)
            record = None if measured is None else measured.record
            control = take_control(signal, None if measured is None else measured.watch, record)
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
        measured: Measurement | None,
        *,
        waited_us: float | None = None,
    ) -> dict[str, Array]:
        """Run once and return the outputs."""
        with self._running:
            if control.limited:
                control.check()
            for guard in self._guards:
                guard()
            arrays = self._results.arrays() if outputs is None else outputs
            shared = self._shared.outputs
            start = time.perf_counter()
            prepared.run(inputs, {**arrays, **shared} if shared else arrays, control)
            took = (time.perf_counter() - start) * 1e6
            if outputs is None:
                outputs = self._results.taken(arrays)
        if control.limited:  # a timeout may have been exceeded in the last step
            control.check()
        if measured is not None:
            measured.note(start, took, waited_us)
        return outputs

    def _prepare(
        self,
        observed: Observed,
        outputs: Sequence[str],
        control: RunControl,
        record: Recorder | None,
    ) -> None:
        """Prepare the graph for the first time, or update what is prepared."""
        updates = dict(self._updates)
        with self._unused(), applied(updates):
            self._views |= updated_views(self.ir, updates, self.context.backend)
            checked = checked_graph(self.ir, self._views, observed, outputs)
            if self._prepared is None:
                interface = self._own_interface(checked.inputs, checked.outputs)
                results = Results(interface)
                prepared = prepare_graph(checked, self.context, self.config, control, record)
                self._interface, self._results = interface, results
                self.placement, self._prepared = prepared.placement, prepared
            else:
                update_graph(checked, self._prepared, updates, self.context, self.config, control)
        self._guards = _guards(self.ir)
        self._updates = {t: u for t, u in self._updates.items() if updates.get(t) is not u}

    def _submit(
        self,
        prepared: Prepared,
        inputs: dict[str, Binding],
        outputs: dict[str, Binding] | None,
        control: RunControl,
        measured: Measurement | None,
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
                    if measured is not None:
                        measured.note(start, took, waited_us)
                except BackendError as late:
                    error = late
            self._submitted.leave()
            done(error)

        with self._running:
            self._submitted.enter()
        try:
            control.check()
            for guard in self._guards:
                guard()
            prepared.submit(inputs, {**(outputs or {}), **self._shared.outputs}, control, ended)
        except BaseException as failure:  # noqa: BLE001 - travels to who waits
            ended(failure)

    @contextmanager
    def _unused(self) -> Iterator[None]:
        """Wait until no execution uses the prepared graph, and let none begin meanwhile.

        Raises:
            BackendError: The call comes from an execution's `notify` while others are in progress,
                which would be a deadlock.
        """
        with self._running:
            if self._submitted.count and threading.get_ident() in self.context.finishing:
                raise BackendError(
                    "a graph cannot be finalized by `notify` while its executions are in progress",
                    code="COMMON_ERROR_OPERATION_NOT_PERMITTED",
                    hint="finalize it in another thread",
                )
            self._submitted.wait()
            yield

    def _own_interface(
        self, inputs: Sequence[ir.Tensor], outputs: Sequence[ir.Tensor]
    ) -> Interface:
        shared = self._shared.inputs.keys() | self._shared.outputs.keys()
        return Interface.of(
            self.name,
            [t for t in inputs if t.name not in shared],
            [t for t in outputs if t.name not in shared],
        )

    def _require_finalized(self) -> Prepared:
        if self._updates:
            raise BackendError(
                f"graph '{self.name}' has updates of tensors that have not been finalized",
                code="GRAPH_ERROR_GRAPH_NOT_FINALIZED",
                hint="call finalize() again before execute()",
            )
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
