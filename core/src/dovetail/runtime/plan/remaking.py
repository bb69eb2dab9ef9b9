"""Making steps again from their recorded group and choice, with their recorded values.

Steps without a recipe are made again when a plan is restored, from the image's excerpt of the
graph, and steps that depend on updateable tensors when these are updated, from the graph itself.
The kernel is called as before; whatever it declares must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec.structs import replace

from dovetail.container import FormKey, Packed, WeightStore
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Graph, Spec, Tensor
from dovetail.ir.check import value_faults
from dovetail.ops import CheckedGraph, NodeView, OpRegistry
from dovetail.runtime.plan.builder import (
    Group,
    Plan,
    Reorder,
    build_plan,
    make_step,
)
from dovetail.runtime.plan.excerpts import checked_excerpt, excerpt_of
from dovetail.runtime.plan.images import digest_of
from dovetail.runtime.plan.kernels import KernelRegistry
from dovetail.runtime.plan.recipes import RecipeError
from dovetail.runtime.plan.replay import Replay, mismatch
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.values import Layout, Step


class _Source(NamedTuple):
    """Nodes that steps are made of, by name too, and their kernels."""

    graph: CheckedGraph
    kernels: KernelRegistry
    views: dict[str, NodeView]


class Remaker:
    """Builds steps of a plan again.

    Args:
        graph: Returns the graph; called when it is first needed. None if unavailable.
        ops: The op registry, for excerpts.
        kernels: Returns the kernels for a graph.
        weights: Forms of constants.
        options: The backend's options.
        reorder: Converts between the layouts of the kernels.

    Attributes:
        count: Number of steps that were made again.
    """

    def __init__(
        self,
        graph: Callable[[], CheckedGraph] | None,
        ops: OpRegistry,
        kernels: Callable[[CheckedGraph], KernelRegistry],
        weights: WeightStore,
        options: Any,
        reorder: Reorder | None,
    ) -> None:
        self.count = 0
        self.weights, self.options, self.reorder = weights, options, reorder
        self.layouts: dict[str, Layout | None] = {}
        self.slots: Sequence[Slot] = ()
        self.forms: dict[FormKey, Packed] = {}
        self._graph, self._ops, self._kernels = graph, ops, kernels
        self._loaded: _Source | None = None
        self._excerpt: _Source | None = None
        self._specs: dict[str, Spec] = {}  # of updateable tensors, as the plan was made
        self._model = ""

    def fresh(self) -> Remaker:
        """Return a remaker of the same graph, for another plan of it."""
        made = Remaker(
            self._graph, self._ops, self._kernels, self.weights, self.options, self.reorder
        )
        made._loaded = self._loaded
        return made

    @property
    def is_loaded(self) -> bool:
        """True if the graph has been needed."""
        return self._loaded is not None

    def begin(
        self,
        model: str,
        slots: Sequence[Slot],
        forms: Sequence[Packed],
        updateable: Iterable[Tensor],
    ) -> None:
        """Prepare for the steps of a plan.

        Args:
            model: Digest of the graph that the plan is of; empty if it is not to be checked.
            slots: The plan's slots.
            forms: The plan's forms.
            updateable: The updateable tensors as they were when the plan was made.
        """
        self._model, self.slots = model, slots
        self.forms = {packed.key: packed for packed in forms}
        self._specs = {tensor.name: tensor.spec for tensor in updateable}

    @property
    def original(self) -> list[Tensor]:
        """The updateable tensors as they were when the plan was made, without data."""
        return [
            Tensor(name, spec.dtype, spec.shape, encoding=spec.encoding)
            for name, spec in self._specs.items()
        ]

    def use_excerpt(self, graph: Graph, names: Collection[str]) -> None:
        """Make steps of a plan that is restored from an excerpt; see `checked_excerpt`."""
        self._excerpt = self._source(checked_excerpt(graph, names, self._ops))

    def excerpt(self, names: Collection[str]) -> Graph:
        """Return an excerpt of the graph as it is now; see `excerpt_of`.

        Args:
            names: Names of the nodes whose steps are made again.
        """
        known = self._loaded or self._excerpt
        if known is not None:
            return excerpt_of(known.graph, names)
        if self._graph is None:
            raise AssertionError("a plan that was built has a graph")
        return excerpt_of(self._graph(), names)

    @property
    def model(self) -> str:
        """Digest of the graph that the plan is of."""
        if not self._model and self._graph is not None:
            self._model = digest_of(self._graph())
        return self._model

    @contextmanager
    def assigning(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """Use data and encodings of these tensors for those of the graph with their names.

        If an error occurs inside, the graph's tensors are as before.
        """
        graph = self._best().graph.graph
        pairs = [(graph.tensors.get(tensor.name), tensor) for tensor in tensors]
        own = [(mine, new) for mine, new in pairs if mine is not None and mine is not new]
        before = [(mine.data, mine.encoding) for mine, _ in own]
        try:
            for mine, new in own:
                mine.data, mine.encoding = new.data, new.encoding
            yield
        except BaseException:
            for (mine, _), (data, encoding) in zip(own, before, strict=True):
                mine.data, mine.encoding = data, encoding
            raise

    def require_updates(self, tensors: Sequence[Tensor], where: str) -> None:
        """Check that tensors of a section are updates of tensors of the graph.

        Raises:
            RecipeError: One of them is unknown, is not updateable or has another type or shape.
        """
        graph, is_excerpt = self._best().graph.graph, self._graph is None
        for tensor in tensors:
            mine = graph.tensors.get(tensor.name)
            if mine is None and is_excerpt:
                continue
            if mine is None or not mine.kind.is_updateable:
                raise RecipeError(f"the graph has no updateable '{tensor.name}'", where=where)
            faults = value_faults(tensor)
            if (mine.kind, mine.dtype, mine.shape) != (tensor.kind, tensor.dtype, tensor.shape):
                faults = ["has another kind, type or shape"]
            if faults:
                raise RecipeError(f"'{tensor.name}' {faults[0]}", where=where)

    def updateable(self, names: Collection[str]) -> tuple[Tensor, ...]:
        """Return the updateable tensors with these names, as far as they are known."""
        if self._graph is None and self._excerpt is None:
            return ()
        graph = self._best().graph
        found = (graph.graph.tensors.get(name) for name in sorted(names))
        return tuple(t for t in found if t is not None and t.kind.is_updateable)

    def written(self, name: str, layout: Layout | None) -> None:
        """Record the layout in which a tensor was written."""
        self.layouts.setdefault(name, layout)

    def follow(self, plan: Plan) -> None:
        """Prepare for the steps of a plan that was built."""
        tensors = () if self._graph is None else self._graph().graph.tensors.values()
        self.begin("", plan.slots, plan.forms, (t for t in tensors if t.kind.is_updateable))
        self.layouts = {}
        for name, value in plan.inputs.items():
            self.written(name, value.layout)
        for step, group in zip(plan.steps, plan.groups, strict=True):
            for value in step.writes if group is not None else ():
                self.written(value.name, value.layout)

    def restored(self, step: Step, group: Group) -> Step:
        """Return a step that is made again from the excerpt.

        Args:
            step: The recorded step.
            group: How it was made.

        Raises:
            ContainerError: The excerpt or its kernels do not match the step.
        """
        if self._excerpt is None:
            raise RecipeError("a step has neither a recipe nor an excerpt of the graph")
        return self._made(step, group, self._excerpt, adopts=False)

    def made(self, step: Step, group: Group) -> Step:
        """Return a step that is made again with updated tensors.

        Args:
            step: The recorded step.
            group: How it was made.

        Raises:
            BackendError: The graph is not available.
            ContainerError: The graph or its kernels do not match the step.
        """
        return self._made(step, group, self._best(), adopts=self._graph is not None)

    def _made(self, step: Step, group: Group, source: _Source, *, adopts: bool) -> Step:
        graph, kernels, views = source
        if any(name not in views for name in group.nodes):
            raise mismatch(step, f"nodes {group.nodes} not found")
        nodes = [_with_current_specs(views[name]) for name in group.nodes]
        scope = Replay(self, graph, step, adopts=adopts)
        found = make_step(scope, nodes, kernels, self.reorder, group.choice)
        if found is None:
            raise mismatch(step, f"the kernel does not support {', '.join(group.nodes)}")
        self.count += 1
        return replace(step, bind=found[0].bind)

    def has_new_encodings(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether a tensor has another encoding than when the plan was built.

        False if the graph is not available.
        """
        if self._graph is None:
            return False
        known = self._specs
        return any(t.name in known and t.encoding != known[t.name].encoding for t in tensors)

    def rebuilt(self) -> Plan:
        """Return a new plan of the graph with its present encodings; `follow` it when it is used.

        Raises:
            BackendError: The graph is not available.
        """
        graph, kernels, _ = self.load()
        graph = replace(graph, nodes=tuple(map(_with_current_specs, graph.nodes)))
        plan = build_plan(graph, kernels, self.weights, self.options, reorder=self.reorder)
        self._loaded = self._source(graph, kernels)
        return plan

    def depends(self, nodes: Collection[str], names: Collection[str]) -> bool:
        """Return whether nodes read or write any of these tensors.

        Args:
            nodes: Names of the nodes: of steps without recipes, unless the graph is loaded.
            names: Names of the tensors.
        """
        if not nodes:
            return False
        _, _, views = self._loaded or self._excerpt or self.load()
        found = [views[name].node for name in nodes if name in views]
        tensors = (t for node in found for t in (*node.inputs, *node.outputs))
        return any(tensor is not None and tensor.name in names for tensor in tensors)

    def load(self) -> _Source:
        """Return the graph, its kernels, and its nodes by name.

        Raises:
            BackendError: The graph is not available.
            ContainerError: It is not the graph of the plan.
        """
        if self._loaded is None:
            if self._graph is None:
                raise BackendError(
                    "some steps are made again from the model, which is not available",
                    code="CONTEXT_ERROR_UNSUPPORTED_FEATURE",
                    hint="restore the image together with its model",
                )
            graph = self._graph()
            if self._model and digest_of(graph) != self._model:
                raise ContainerError(
                    f"the image is of another graph than '{graph.name}'",
                    code="CONTAINER_INCOMPATIBLE",
                    where=graph.where,
                    hint="restore it with the model that it was created from",
                )
            self._loaded = self._source(graph)
        return self._loaded

    def _best(self) -> _Source:
        """Return the graph if it is available, else the excerpt."""
        return self._excerpt if self._graph is None and self._excerpt else self.load()

    def _source(self, graph: CheckedGraph, kernels: KernelRegistry | None = None) -> _Source:
        views = {view.node.name: view for view in graph.nodes}
        return _Source(graph, kernels or self._kernels(graph), views)


def _with_current_specs(view: NodeView) -> NodeView:
    """Return a view with the encodings that its tensors have now."""
    ins = tuple(
        spec if tensor is None or spec is None else tensor.spec
        for tensor, spec in zip(view.node.inputs, view.ins, strict=False)
    )
    outs = tuple(tensor.spec for tensor in view.node.outputs)
    return replace(view, ins=(*ins, *view.ins[len(ins) :]), outs=outs)
