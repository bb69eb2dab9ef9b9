"""Graph handles: finalization and execution."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dovetail import ir
from dovetail.container import ContextFile, graph_digest
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Array, Encoding
from dovetail.ops import NOTHING, Observed
from dovetail.plugins.hooks import hooks
from dovetail.runtime.buffers import Buffer, checked_buffers
from dovetail.runtime.composition import ComposedGraph
from dovetail.runtime.config import GraphConfig
from dovetail.runtime.context_tensors import ContextTensor
from dovetail.runtime.contract import Image, Prepared, RunControl, Watch
from dovetail.runtime.finalization import (
    checked_graph,
    close_prepared,
    prepare_graph,
    update_graph,
    updated_views,
)
from dovetail.runtime.handle import api_call, current_call
from dovetail.runtime.interface import Interface
from dovetail.runtime.io_buffers import IoBuffers
from dovetail.runtime.measurements import Counter, EventType, EventUnit, ProfileEvent, Recorder
from dovetail.runtime.plugin_errors import translate_errors
from dovetail.runtime.profile import Measurement, Profile
from dovetail.runtime.queue import Execution
from dovetail.runtime.revisions import value_of
from dovetail.runtime.runner import Runner
from dovetail.runtime.signal import Signal, controlled, release_control, take_control
from dovetail.runtime.stored_graphs import StoredGraph
from dovetail.runtime.updates import applied, assign, section_faults

if TYPE_CHECKING:  # a graph belongs to a context, which imports it
    from dovetail.runtime.context import Context
    from dovetail.runtime.placement import Placement

log = logging.getLogger("dovetail.runtime")

Notify = Callable[[BaseException | None], None]


class Graph(ComposedGraph):
    """A graph of a context: tensors and nodes are added, then it is finalized, then executed.

    Attributes:
        placement: What runs on which backend, once the backend `hetero` has prepared it; else None.
        observed: Tensors that watches receive besides the outputs, once it has been prepared.
        added_outputs: Names of the tensors that became outputs when it was prepared.
        whole_interface: All inputs and outputs, context tensors too, once it has been prepared.
    """

    def __init__(
        self,
        context: Context,
        name: str,
        config: GraphConfig,
        stored: StoredGraph | None = None,
    ) -> None:
        super().__init__(context, name, config, stored)
        self.placement: Placement | None = None
        self.observed = NOTHING
        self.added_outputs: tuple[str, ...] = ()
        self.whole_interface = Interface(name, {}, {})
        self._interface = Interface(name, {}, {})
        self._runner = Runner(name, self._shared, context.executions)
        self._base_digest = ""  # computed when it is needed

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
            event = ProfileEvent(
                EventType.FINALIZE,
                self.name,
                (time.perf_counter() - start) * 1e6,
                children=tuple(record.events),
                start_us=start * 1e6,
                backend=self.context.backend.name,
                counters=(Counter("io_buffer_bytes", self._runner.io.nbytes, EventUnit.BYTES),),
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
        context, runner = self.context, self._runner
        unbinds = runner.unbinds
        given, taken = checked_buffers(self._interface, inputs, outputs, context, self._shared)
        measured, record = None, None
        if profile is not None or watch is not None:
            measured = Measurement(self, profile, watch, runner.io.use(inputs, outputs))
            watch, record = measured.watch, measured.record
        elif runner.io.awaits_raw:
            runner.io.use(inputs, outputs)
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
            measured = Measurement.of(self, profile, None, io.use(inputs, outputs))
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

    # -- context binaries ------------------------------------------------------------------------

    @classmethod
    def restored(
        cls,
        context: Context,
        stored: StoredGraph,
        prepared: Prepared,
        tensors: Sequence[ContextTensor],
    ) -> Graph:
        """Return a graph of a context binary; called by the context.

        Args:
            context: The context.
            stored: The graph in the binary.
            prepared: The graph, ready to run.
            tensors: The context tensors that it uses.
        """
        graph = cls(context, stored.name, stored.config, stored)
        graph._shared.restore(tensors, stored.interface)
        graph._use(prepared, stored.interface)
        graph.observed, graph.added_outputs = stored.observed, stored.entry.added_outputs
        guard = stored.file.guard
        graph._runner.guards = () if guard is None else (guard,)
        return graph

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Names of the context tensors that it uses."""
        return self._shared.names

    def prepared(self) -> Prepared:
        """Return what runs; its errors are those of `execute` for a graph that is not finalized."""
        return self._require_finalized()

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes besides its tensors once it is ready to run; 0 if unknown."""
        if self.stored is not None:
            return self.stored.entry.memory_bytes
        return self._require_finalized().memory_bytes

    def model(self) -> ir.Graph | None:
        """Return its tensors and nodes; None if it was loaded from a binary without them."""
        has_model = self.stored is None or self.stored.has_model
        return self.ir if has_model else None

    def op_packages(self) -> dict[str, str]:
        """Return the versions of the op packages of its nodes, by name."""
        model, ops = self.model(), self.context.backend.ops
        if model is None and self.stored is not None:
            return dict(self.stored.file.manifest.op_packages)
        nodes = () if model is None else model.nodes
        names = {n.package for n in nodes if not self.context.backend.is_opaque(n)}
        return {name: ops.package(name).version for name in names}

    def digest(self) -> str:
        """Return its identity as it is now: of its structure, encodings and data."""
        names = self.revision.names
        if self.stored is not None and (not names or not self.stored.has_model):
            return self.stored.entry.digest if not names else ""
        return graph_digest(self.ir)

    def base_digest(self) -> str:
        """Return its identity when it was prepared, or in its context binary."""
        if self.stored is not None:
            return self.stored.entry.digest
        with self._runner.idle():  # another thread may change the tensors
            if not self._base_digest:
                tensors = self._own(self.revision.names)
                now = {tensor: value_of(tensor) for tensor in tensors.values()}
                base = self.revision.base(tensors)
                try:
                    assign({tensors[name]: update for name, update in base.items()})
                    self._base_digest = graph_digest(self.ir)
                finally:
                    assign(now)
            return self._base_digest

    def updated_tensors(self) -> tuple[ir.Tensor, ...]:
        """Return the tensors that differ from the base, as they are now."""
        graph = self._loaded_ir
        if graph is None:
            return self.revision.section_tensors()
        return tuple(graph.tensors[name] for name in self.revision.names)

    @property
    def _loaded_ir(self) -> ir.Graph | None:
        """Its tensors and nodes if they are in memory."""
        return self._ir if self.stored is None else self.stored.loaded_graph

    def apply(
        self, tensors: Mapping[str, ir.Tensor], image: Image, control: RunControl
    ) -> dict[str, Encoding]:
        """Use the tensors of a section; all others are as in the base.

        Args:
            tensors: From `section_tensors`.
            image: The section itself.
            control: Can end the work before it begins.

        Returns:
            The new encodings of inputs and outputs, by name.

        Raises:
            BackendError: The graph has updates that are not finalized.
            ContainerError: The section is damaged.
        """
        self._require_finalized()
        ends, name = self._ends(), self.context.backend.name
        known = {each: tensor.encoding for each, tensor in ends.items()}
        has_model = self.stored is None or self.stored.has_model
        reset: dict[str, Encoding | None] = {}
        with self._runner.idle():
            control.check()
            stale = [each for each in self.revision.names if each not in tensors]
            if stale and has_model:
                self.ir  # noqa: B018 - raises if they cannot be restored
            with translate_errors(name, "`apply` failed", "CONTEXT_ERROR_BINARY_CONFIGURATION"):
                if not has_model:
                    reset = self._reset(stale)
                before = {each: value_of(tensor) for each, tensor in self._own(tensors).items()}
                self._require_finalized().apply(image)
                self.revision.note_section(before, tensors.values())
                for each, tensor in self._own(tensors).items():  # the backend may have loaded them
                    tensor.data, tensor.encoding = tensors[each].data, tensors[each].encoding
                if has_model:
                    reset = self._reset(stale)
        for each, encoding in (reset | {n: t.encoding for n, t in tensors.items()}).items():
            if each in ends:
                ends[each].encoding = encoding
        new = {each: tensor.encoding for each, tensor in ends.items()}
        return {n: e for n, e in new.items() if e is not None and e != known[n]}

    def section_tensors(self, file: ContextFile) -> dict[str, ir.Tensor]:
        """Return the tensors that a section has for the graph, by name.

        Raises:
            ContainerError: They are damaged, or do not match updateable tensors of the graph; all
                are listed.
        """
        tensors = {tensor.name: tensor for tensor in file.updated(self.name)}
        if self.stored is not None and not self.stored.has_model:
            return tensors  # nothing but the backend's forms of them is used
        known = self.ir.tensors if self.stored is None else self.stored.updateable
        if faults := list(section_faults(tensors.values(), known)):
            raise ContainerError(
                "the section does not match the graph",
                code="CONTAINER_INVALID",
                where=f"{file.where}: graph '{self.name}'",
                problems=faults,
            )
        return tensors

    def _own(self, names: Iterable[str]) -> dict[str, ir.Tensor]:
        """Return the tensors of the graph with these names, none if it is not in memory."""
        graph = self._loaded_ir
        return {} if graph is None else {name: graph.tensors[name] for name in names}

    def _reset(self, names: Sequence[str]) -> dict[str, Encoding | None]:
        """Use the base's values of tensors, and return their encodings as far as they are known.

        Without the model, the graph is loaded again from its context binary.
        """
        if not names:
            return {}
        prepared = self._require_finalized()
        if self.stored is not None and not self.stored.has_model:
            self._prepared = self.stored.load_again(prepared)
            self.revision.clear()
            ends = self.stored.file.interface(self.name)
            return {tensor.name: tensor.encoding for each in ends for tensor in each}
        tensors, base = [self.ir.tensors[name] for name in names], self.revision.base(names)
        with applied(dict(zip(tensors, base.values(), strict=True))):
            prepared.update(tensors)
        self.revision.note({}, base)
        return {name: update.encoding for name, update in base.items()}

    def _ends(self) -> dict[str, ir.Tensor]:
        """Return the tensors of its inputs and outputs, which have their encodings."""
        whole = self.whole_interface
        return {n: end.tensor for ends in (whole.inputs, whole.outputs) for n, end in ends.items()}

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
        self._runner.guards = _guards(self.ir)
        self._updates = {t: u for t, u in self._updates.items() if updates.get(t) is not u}

    def _use(self, prepared: Prepared, interface: Interface) -> None:
        own, emulated = self._own_interface(interface), self.context.backend.capabilities
        self._runner.io = IoBuffers(own, prepared.io_buffers, emulated=emulated.emulates_io_buffers)
        self.whole_interface, self._interface = interface, own
        self.placement, self._prepared = prepared.placement, prepared

    def _own_interface(self, whole: Interface) -> Interface:
        """Return an interface without context tensors."""
        shared = self._shared.inputs.keys() | self._shared.outputs.keys()
        if not shared:
            return whole
        return Interface(
            self.name,
            {name: end for name, end in whole.inputs.items() if name not in shared},
            {name: end for name, end in whole.outputs.items() if name not in shared},
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
