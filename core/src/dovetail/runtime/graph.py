"""Graph handles: finalization and execution."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from dovetail import ir
from dovetail.ir import Array
from dovetail.ops import NOTHING, Observed
from dovetail.plugins.hooks import hooks
from dovetail.runtime.buffers import Buffer, checked_buffers
from dovetail.runtime.contract import RunControl, Watch
from dovetail.runtime.finalization import (
    checked_graph,
    close_prepared,
    prepare_graph,
    update_graph,
    updated_views,
)
from dovetail.runtime.handle import api_call, current_call
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import Counter, EventType, EventUnit, Recorder
from dovetail.runtime.profile import Measurement, Profile
from dovetail.runtime.queue import Execution
from dovetail.runtime.revised_graph import RevisedGraph
from dovetail.runtime.revisions import value_of
from dovetail.runtime.signal import Signal, controlled, release_control, take_control
from dovetail.runtime.updates import applied

log = logging.getLogger("dovetail.runtime")

Notify = Callable[[BaseException | None], None]


class Graph(RevisedGraph):
    """A graph of a context: tensors and nodes are added, then it is finalized, then executed."""

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
        return self._own_interface(Interface.of(self.name, self.ir.inputs, self.ir.outputs))

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
                self.context.executions.enter(control)  # `Context.free` waits for the end
                try:
                    self._prepare(observed, outputs, control, record)
                finally:
                    self.context.executions.leave(control)
        finally:
            self._finalizing.release()
        if profile is not None and record is not None:
            nbytes = self._runner.io.nbytes(self._require_finalized().io_buffers)
            counters = (Counter("io_buffer_bytes", nbytes, EventUnit.BYTES),)
            name, backend = self.name, self.context.backend.name
            profile.add_call(
                EventType.FINALIZE, name, record, start, backend=backend, counters=counters
            )

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
        context, runner = self.context, self._runner
        unbinds = runner.unbinds
        given, taken = checked_buffers(self._interface, inputs, outputs, context, self._shared)
        measured, record = None, None
        if profile is not None or watch is not None:
            measured = Measurement(
                self, profile, watch, runner.io.use(prepared.io_buffers, inputs, outputs)
            )
            watch, record = measured.watch, measured.record
        elif runner.io.awaits_raw:
            runner.io.use({}, inputs, outputs)
        tokens, held = context.tokens, None
        # without a signal, as most runs are: a call less
        control = (
            RunControl(watch, None, record)
            if signal is None
            else take_control(signal, watch, record)
        )
        try:
            context.executions.enter(control)
            try:
                if tokens.registered:
                    held = tokens.hold(given, taken)
                return runner.run(prepared, given, taken, control, measured)
            finally:
                if runner.unbinds != unbinds:  # its memory was deregistered meanwhile
                    self.unbind()
                if held:
                    tokens.let_go(held)
                context.executions.leave(control)
        finally:
            if signal is not None:
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
        prepared, unbinds = self._require_finalized(), self._runner.unbinds
        given, found = checked_buffers(self._interface, inputs, outputs, self.context, self._shared)
        taken = found or {}
        measured, io = None, self._runner.io
        if profile is not None or io.awaits_raw:
            copied = {} if profile is None else prepared.io_buffers
            measured = Measurement.of(self, profile, None, io.use(copied, inputs, outputs))
        execution, call, queued = Execution(), current_call(), time.perf_counter()
        overlaps = self.context.backend.capabilities.overlap
        tokens, executions = self.context.tokens, self.context.executions

        def run() -> None:
            waited = (time.perf_counter() - queued) * 1e6
            if overlaps:
                self._runner.submit(prepared, given, taken, control, measured, waited, done)
                return
            error: BaseException | None = None
            try:
                self._runner.run(prepared, given, taken, control, measured, waited_us=waited)
            except BaseException as failure:  # noqa: BLE001 - travels to who waits
                error = failure
            done(error)

        def done(error: BaseException | None) -> None:
            release_control(signal)
            tokens.let_go(held)
            executions.leave_queue()  # a waiting caller can queue another run at once
            if call is not None:
                hooks.api_complete(call.failed(error) if error else call.returned(dict(taken)))
            given.clear()  # the application may close its buffers at once
            taken.clear()
            if self._runner.unbinds != unbinds:  # its memory was deregistered meanwhile
                self.unbind()
            execution.finish(error)
            with executions.notifying():
                try:
                    if notify is not None:
                        notify(error)
                except Exception:
                    log.exception("notify of graph '%s' failed", self.name)

        with ExitStack() as undo:  # if the queue does not accept the execution
            executions.enter_queue()
            undo.callback(executions.end_queued)
            undo.callback(executions.leave_queue)
            held = tokens.hold(given, taken)
            undo.callback(tokens.let_go, held)
            record = None if measured is None else measured.record
            control = take_control(signal, None if measured is None else measured.watch, record)
            undo.callback(release_control, signal)
            self.context.device.queue.put(run, self.priority)
            undo.pop_all()
        return execution

    def unbind(self) -> None:
        """Drop references to buffers of earlier executions; called by the context."""
        if (prepared := self._prepared) is not None:
            self._runner.unbind(prepared)

    def invalidate(self) -> None:
        """Invalidate the handle and release the prepared graph; called by the context."""
        prepared, self._prepared = self._prepared, None
        super().invalidate()
        if prepared is not None:
            close_prepared(prepared, self.name)

    # -- inside ----------------------------------------------------------------------------------

    def _prepare(
        self,
        observed: Observed,
        outputs: Sequence[str],
        control: RunControl,
        record: Recorder | None,
    ) -> None:
        """Prepare the graph for the first time, or update what is prepared."""
        updates = dict(self._updates)
        before = {tensor.name: value_of(tensor) for tensor in updates}
        with self._runner.idle(), applied(updates):
            self._views |= updated_views(self.ir, updates, self.context.backend)
            checked = checked_graph(self.ir, self._views, observed, outputs)
            if self._prepared is None:
                whole = Interface.of(self.name, checked.inputs, checked.outputs)
                prepared = prepare_graph(checked, self.context, self.config, control, record)
                self._use(prepared, whole)
                self.observed, self.added_outputs = observed, tuple(outputs)
            else:
                update_graph(checked, self._prepared, updates, self.context, self.config, control)
                self.revision.note(before, {t.name: u for t, u in updates.items()})
                ends = self._ends()  # of a restored graph they are other tensors
                for tensor, update in updates.items():
                    if tensor.name in ends:
                        ends[tensor.name].encoding = update.encoding
        self._runner.guards = _guards(self.ir)
        self._updates = {t: u for t, u in self._updates.items() if updates.get(t) is not u}


def _guards(graph: ir.Graph) -> tuple[Callable[[], None], ...]:
    """Return a check for each mapped file whose bytes a prepared graph still uses."""
    blobs = (t.data for t in ir.static_tensors(graph) if t.data is not None)
    return tuple({guard: None for blob in blobs if (guard := blob.guard) is not None})
