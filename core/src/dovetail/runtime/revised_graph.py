"""Graphs that are ready to run, in their base form or revised by sections of context binaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from dovetail import ir
from dovetail.container import ContextFile, graph_digest
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Encoding
from dovetail.ops import NOTHING
from dovetail.runtime.composition import ComposedGraph
from dovetail.runtime.config import GraphConfig
from dovetail.runtime.context_tensors import ContextTensor
from dovetail.runtime.contract import Image, Prepared, RunControl
from dovetail.runtime.interface import Interface
from dovetail.runtime.io_buffers import IoBuffers
from dovetail.runtime.plugin_errors import translate_errors
from dovetail.runtime.residency import loaded_again
from dovetail.runtime.revisions import value_of
from dovetail.runtime.runner import Runner
from dovetail.runtime.stored_graphs import StoredGraph
from dovetail.runtime.updates import applied, assign, section_faults

if TYPE_CHECKING:  # a graph belongs to a context, which imports it
    from dovetail.runtime.context import Context
    from dovetail.runtime.placement import Placement


class RevisedGraph(ComposedGraph):
    """A graph that is ready to run, stored, restored and revised: the base of `Graph`.

    Attributes:
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
        self.observed = NOTHING
        self.added_outputs: tuple[str, ...] = ()
        self.whole_interface = Interface(name, {}, {})
        self._interface = Interface(name, {}, {})
        self._runner = Runner(name, self._shared, context.executions)
        self._base_digest = ""  # computed when it is needed

    @property
    def placement(self) -> Placement | None:
        """The backends of its parts, once the backend `hetero` has prepared it; else None."""
        return None if self._prepared is None else self._prepared.placement

    @classmethod
    def restored(
        cls,
        context: Context,
        stored: StoredGraph,
        prepared: Prepared,
        tensors: Sequence[ContextTensor],
    ) -> Self:
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

    def undo_of(self, tensors: Mapping[str, ir.Tensor]) -> Callable[[], None]:
        """Return what undoes `apply` of a section with these tensors, while nothing else runs."""
        revision, ends = self.revision, self._ends()
        encodings = {name: tensor.encoding for name, tensor in ends.items()}
        with self._runner.idle():
            # all that can change, since a section may have more than it lists
            names = [*dict.fromkeys((*tensors, *revision.names, *self._updateable()))]
            state, before = revision.state(), {t: value_of(t) for t in self._own(names).values()}
            image = self._require_finalized().section(names)

        def undo() -> None:
            with self._runner.idle():
                self._require_finalized().apply(image)
                revision.return_to(state)
                assign(before)
                for name, encoding in encodings.items():
                    ends[name].encoding = encoding

        return undo

    def section_tensors(self, file: ContextFile) -> dict[str, ir.Tensor]:
        """Return the tensors that a section has for the graph, by name.

        Raises:
            ContainerError: They are damaged, or do not match updateable tensors of the graph; all
                are listed.
        """
        tensors = {tensor.name: tensor for tensor in file.updated(self.name)}
        if self.stored is not None and not self.stored.has_model:
            return tensors  # nothing but the backend's forms of them is used
        if faults := list(section_faults(tensors.values(), self._updateable())):
            raise ContainerError(
                "the section does not match the graph",
                code="CONTAINER_INVALID",
                where=f"{file.where}: graph '{self.name}'",
                problems=faults,
            )
        return tensors

    def _updateable(self) -> Mapping[str, ir.Tensor]:
        """Return its updateable tensors by name, as far as they are known."""
        if self.stored is not None:
            return self.stored.updateable
        return {name: t for name, t in self.ir.tensors.items() if t.kind.is_updateable}

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
            self._prepared = loaded_again(self.stored, prepared)
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

    def _use(self, prepared: Prepared, interface: Interface) -> None:
        own, emulated = self._own_interface(interface), self.context.backend.capabilities
        self._runner.io = IoBuffers(own, emulated=emulated.emulates_io_buffers)
        self.whole_interface, self._interface = interface, own
        self._prepared = prepared

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
