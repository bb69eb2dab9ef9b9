"""Making steps again from their recorded group and choice, with their recorded values.

Steps without a recipe are made again when a plan is restored, and steps that depend on encodings
when these are updated. The kernel is called as before; whatever it declares must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dovetail.container import HOST, FormKey, MakeForm, Packed, WeightStore
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Array, Encoding, Node, Tensor
from dovetail.ir.check import value_faults
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime.plan.builder import (
    Group,
    Plan,
    Reorder,
    build_plan,
    form_in,
    make_step,
    packed_in,
    stored_elements,
)
from dovetail.runtime.plan.images import digest_of
from dovetail.runtime.plan.kernels import KernelRegistry
from dovetail.runtime.plan.recipes import RecipeError
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.spaces import Space
from dovetail.runtime.plan.values import Layout, Step, Value


class Remaker:
    """Builds steps of a plan again.

    Args:
        graph: Returns the graph; called when it is first needed. None if unavailable.
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
        self._graph, self._kernels = graph, kernels
        self._loaded: tuple[CheckedGraph, KernelRegistry, dict[str, NodeView]] | None = None
        # of updateable tensors, in the plan; None until it is known
        self._encodings: dict[str, Encoding | None] | None = None
        self._model = ""

    def fresh(self) -> Remaker:
        """Return a remaker of the same graph, for another plan of it."""
        made = Remaker(self._graph, self._kernels, self.weights, self.options, self.reorder)
        made._loaded = self._loaded
        return made

    @property
    def is_loaded(self) -> bool:
        """True if the graph has been needed."""
        return self._loaded is not None

    def begin(self, model: str, slots: Sequence[Slot], forms: Sequence[Packed]) -> None:
        """Prepare for the steps of a plan.

        Args:
            model: Digest of the graph that the plan is of; empty if it is not to be checked.
            slots: The plan's slots.
            forms: The plan's forms.
        """
        self._model, self.slots = model, slots
        self.forms = {packed.key: packed for packed in forms}

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
        graph = self.load()[0].graph
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
        graph = self.load()[0].graph
        for tensor in tensors:
            mine = graph.tensors.get(tensor.name)
            if mine is None or not mine.kind.is_updateable:
                raise RecipeError(f"the graph has no updateable '{tensor.name}'", where=where)
            faults = value_faults(tensor)
            if (mine.kind, mine.dtype, mine.shape) != (tensor.kind, tensor.dtype, tensor.shape):
                faults = ["has another kind, type or shape"]
            if faults:
                raise RecipeError(f"'{tensor.name}' {faults[0]}", where=where)

    def updateable(self, names: Collection[str]) -> tuple[Tensor, ...]:
        """Return the updateable tensors with these names; none if the graph is not available."""
        if self._graph is None:
            return ()
        graph, _, _ = self.load()
        found = (graph.graph.tensors.get(name) for name in sorted(names))
        return tuple(t for t in found if t is not None and t.kind.is_updateable)

    def written(self, name: str, layout: Layout | None) -> None:
        """Record the layout in which a tensor was written."""
        self.layouts.setdefault(name, layout)

    def follow(self, plan: Plan) -> None:
        """Prepare for the steps of a plan that was built."""
        self.begin("", plan.slots, plan.forms)
        self.layouts = {}
        if self._graph is not None:
            self._encodings = _encodings(self._graph())
        for name, value in plan.inputs.items():
            self.written(name, value.layout)
        for step, group in zip(plan.steps, plan.groups, strict=True):
            for value in step.writes if group is not None else ():
                self.written(value.name, value.layout)

    def made(self, step: Step, group: Group) -> Step:
        """Return a step that is made again.

        Args:
            step: The recorded step.
            group: How it was made.

        Raises:
            BackendError: The graph is not available.
            ContainerError: The graph or its kernels do not match the step.
        """
        graph, kernels, views = self.load()
        if any(name not in views for name in group.nodes):
            raise _mismatch(step, f"nodes {group.nodes} not found")
        nodes = [_with_current_specs(views[name]) for name in group.nodes]
        scope = _Replay(self, graph, step)
        found = make_step(scope, nodes, kernels, self.reorder, group.choice)
        if found is None:
            raise _mismatch(step, f"the kernel does not support {', '.join(group.nodes)}")
        self.count += 1
        return replace(step, bind=found[0].bind)

    def has_new_encodings(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether a tensor has another encoding than when the plan was built.

        False if the graph is not available.
        """
        if self._graph is None or all(tensor.encoding is None for tensor in tensors):
            return False
        self.load()
        known = self._encodings or {}
        return any(t.name in known and t.encoding != known[t.name] for t in tensors)

    def rebuilt(self) -> Plan:
        """Return a new plan of the graph with its present encodings; `follow` it when it is used.

        Raises:
            BackendError: The graph is not available.
        """
        graph, kernels, _ = self.load()
        graph = replace(graph, nodes=tuple(map(_with_current_specs, graph.nodes)))
        plan = build_plan(graph, kernels, self.weights, self.options, reorder=self.reorder)
        self._loaded = graph, kernels, {view.node.name: view for view in graph.nodes}
        return plan

    def depends(self, group: Group, names: Collection[str]) -> bool:
        """Return whether a step reads or writes any of these tensors."""
        _, _, views = self.load()
        nodes = [views[name].node for name in group.nodes if name in views]
        tensors = (t for node in nodes for t in (*node.inputs, *node.outputs))
        return any(tensor is not None and tensor.name in names for tensor in tensors)

    def load(self) -> tuple[CheckedGraph, KernelRegistry, dict[str, NodeView]]:
        """Return the graph, its kernels, and its nodes by name.

        Raises:
            BackendError: The graph is not available.
            ContainerError: It is not the graph of the plan.
        """
        if self._loaded is None:
            if self._graph is None:
                raise BackendError(
                    "the image has not all of the graph: some steps are made again from the model, "
                    "which is not available",
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
            views = {view.node.name: view for view in graph.nodes}
            self._loaded = graph, self._kernels(graph), views
            if self._encodings is None:  # else of the plan, and the tensors may have others by now
                self._encodings = _encodings(graph)
        return self._loaded


def _encodings(graph: CheckedGraph) -> dict[str, Encoding | None]:
    tensors = graph.graph.tensors.values()
    return {tensor.name: tensor.encoding for tensor in tensors if tensor.kind.is_updateable}


def _with_current_specs(view: NodeView) -> NodeView:
    """Return a view with the encodings that its tensors have now."""
    ins = tuple(
        spec if tensor is None or spec is None else tensor.spec
        for tensor, spec in zip(view.node.inputs, view.ins, strict=False)
    )
    outs = tuple(tensor.spec for tensor in view.node.outputs)
    return replace(view, ins=(*ins, *view.ins[len(ins) :]), outs=outs)


class _Replay:
    """The `Scope` of a step that is made again: returns its recorded values, in order."""

    def __init__(self, remaker: Remaker, graph: CheckedGraph, step: Step) -> None:
        self.weights = remaker.weights
        self.options = remaker.options
        self._remaker = remaker
        self._graph = graph
        self._step = step
        self._reads, self._writes = iter(step.reads), iter(step.writes)
        self._scratch = iter(step.scratch)

    def layout(self, tensor: Tensor) -> Layout | None:
        return None if tensor.data is not None else self._remaker.layouts.get(tensor.name)

    def read(self, tensor: Tensor, layout: Layout | None) -> Value:
        value = self._of(self._reads, tensor, layout)
        if value.slot is not None and not value.slot.has_maker:
            value.slot.adopt([tensor], form_in(tensor, layout, self._remaker.reorder)[1])
        return value

    def write(self, tensor: Tensor, layout: Layout | None) -> Value:
        return self._of(self._writes, tensor, layout)

    def views(
        self,
        tensors: Sequence[Tensor],
        source: tuple[Tensor, Layout | None],
        layout: Layout | None,
        offsets: Sequence[int],
    ) -> tuple[Value, tuple[Value, ...]] | None:
        return None  # views have recipes

    def readers(self, tensor: Tensor) -> Sequence[Node]:
        return self._graph.consumers(tensor)

    def writer(self, tensor: Tensor) -> Node | None:
        return self._graph.producer(tensor)

    def stored(self, tensor: Tensor) -> Array:
        return stored_elements(tensor, self.packed)

    def packed(
        self,
        inputs: Sequence[Tensor | None],
        form: str,
        make: MakeForm,
        space: Space | None = None,
    ) -> Packed | Slot:
        if not any(tensor is not None and tensor.kind.is_updateable for tensor in inputs):
            key = FormKey.of(inputs, form, HOST if space is None else space.name)
            found = self._remaker.forms.get(key)
            return packed_in(space, self.weights, inputs, form, make) if found is None else found
        names = tuple("" if tensor is None else tensor.name for tensor in inputs)
        for slot in self._remaker.slots:
            if (slot.inputs, slot.form) == (names, form):
                slot.adopt(inputs, make)
                return slot
        raise _mismatch(self._step, f"no slot '{form}' of {', '.join(names)}")

    def constant(self, name: str, form: Packed | Slot, layout: Layout | None) -> Value:
        data, layouted = form.data, layout is not None and layout.space is not None
        shape = (data.nbytes,) if layouted else data.shape
        value = self._next(self._reads, name, layout, shape)
        value.array = data
        return value

    def scratch(self, nbytes: int, layout: Layout | None) -> Value:
        return self._next(self._scratch, "scratch", layout, (nbytes,))

    def _of(self, values: Any, tensor: Tensor, layout: Layout | None) -> Value:
        """Return the next value, which is that of a tensor, with the tensor's encoding."""
        value = self._next(values, tensor.name, layout, tensor.shape)
        if value.spec.dtype is not tensor.dtype:
            raise _mismatch(self._step, f"'{tensor.name}' has the type {tensor.dtype.name}")
        value.spec = tensor.spec
        return value

    def _next(
        self,
        values: Any,
        name: str,
        layout: Layout | None,
        shape: tuple[int, ...],
    ) -> Value:
        value: Value | None = next(values, None)
        if value is None or value.name != name or value.layout != layout:
            raise _mismatch(self._step, f"'{name}' is declared otherwise")
        if tuple(value.spec.shape) != tuple(shape):
            raise _mismatch(self._step, f"'{name}' has the shape {shape}")
        return value


def _mismatch(step: Step, why: str) -> ContainerError:
    return ContainerError(
        f"the step of {', '.join(step.nodes)} does not match the model: {why}",
        code="CONTAINER_INCOMPATIBLE",
        hint="prepare the model again",
    )
