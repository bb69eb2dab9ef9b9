"""The builder, which turns a graph into steps: it groups nodes and inserts reorders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from dovetail.container import FormKey, MakeForm, Packed, WeightStore, aligned_empty
from dovetail.errors import DovetailError
from dovetail.ir import Array, DType, Node, Spec, Tensor, TensorKind
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan.arena import Arena, ArenaBuffers
from dovetail.runtime.plan.dequantized import PackForm, dequantized_step, float_graph
from dovetail.runtime.plan.grouping import groups_of
from dovetail.runtime.plan.kernel_call import KernelCall, Scope, Tail
from dovetail.runtime.plan.kernels import KernelRegistry
from dovetail.runtime.plan.reference import reference_step
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.spaces import Block, Space, uploaded
from dovetail.runtime.plan.values import Layout, Step, Storage, Value

_BYTE = 8

# Creates the step that converts the first value to the second value's layout.
Reorder = Callable[[Value, Value], Step]


SIMULATED = -1  # the choice for a node without a kernel


class Group(msgspec.Struct, frozen=True):
    """The origin of a step: its nodes and its kernel.

    Attributes:
        nodes: Names of the nodes, the head first.
        choice: Index of the kernel's function, or `SIMULATED`.
    """

    nodes: tuple[str, ...]
    choice: int


class Plan(msgspec.Struct, frozen=True):
    """A graph as steps.

    Attributes:
        steps: In order of execution.
        inputs, outputs: The application's values by tensor name.
        reorder: The engine's reorder, to read values in the engine's layouts.
        groups: For each step how it was made; None for reorders.
        slots: Forms of updateable tensors.
        forms: Forms of other tensors that the steps use.
    """

    steps: tuple[Step, ...]
    inputs: dict[str, Value]
    outputs: dict[str, Value]
    reorder: Reorder | None
    groups: tuple[Group | None, ...] = ()
    slots: tuple[Slot, ...] = ()
    forms: tuple[Packed, ...] = ()


def build_plan(
    graph: CheckedGraph,
    kernels: KernelRegistry,
    weights: WeightStore,
    options: Any,
    *,
    reorder: Reorder | None = None,
    control: RunControl | None = None,
) -> Plan:
    """Create the plan of a graph.

    Args:
        graph: Its observed tensors are computed separately, so that they can be watched.
        kernels: The backend's kernels; ops without one run by their reference. On fixed-point
            tensors, a float kernel runs between dequantizing and quantizing.
        weights: Store of the kernels' packed weights.
        options: The backend's options, for its kernels.
        reorder: Converts between the layouts that the kernels choose.
        control: Checked before each step is created.

    Raises:
        BackendError: The control ended the preparation.
    """
    builder = _Builder(graph, weights, options, reorder)
    values = {t.name: builder.application(t, Storage.INPUT) for t in graph.inputs}
    for group in groups_of(graph, kernels):
        if control is not None and control.limited:
            control.check()
        builder.add(group, kernels)
    outputs = {t.name: builder.finish(t) for t in graph.outputs}
    groups = tuple(builder.groups.get(step) for step in builder.steps)
    slots, forms = tuple(builder.slots.values()), tuple(builder.forms.values())
    return Plan(tuple(builder.steps), values, outputs, reorder, groups, slots, forms)


class _Builder:
    """The `Scope` of the kernels of one plan."""

    def __init__(
        self,
        graph: CheckedGraph,
        weights: WeightStore,
        options: Any,
        reorder: Reorder | None,
    ) -> None:
        self._graph = graph
        self.weights = weights
        self.options = options
        self.steps: list[Step] = []
        self.groups: dict[Step, Group] = {}
        self.forms: dict[FormKey, Packed] = {}
        self.slots: dict[tuple[tuple[Tensor | None, ...], str], Slot] = {}
        self._reorder = reorder
        # each tensor's values by layout; the first is the written one
        self._values: dict[Tensor, dict[Layout | None, Value]] = {}

    def application(self, tensor: Tensor, storage: Storage) -> Value:
        value = Value(tensor.name, tensor.spec, storage)
        self._values[tensor] = {None: value}
        return value

    def add(self, group: Sequence[NodeView], kernels: KernelRegistry) -> None:
        made = make_step(self, group, kernels, self._reorder)
        if made is None:
            for view in group:
                self.add([view], kernels)
            return
        step, choice = made
        self.groups[step] = Group(tuple(view.node.name for view in group), choice)
        self.steps.append(step)

    def finish(self, tensor: Tensor) -> Value:
        value = self.read(tensor, None)
        if value.storage is not Storage.OUTPUT:
            raise AssertionError(f"output {tensor.name} was not written to its buffer")
        return value

    # -- Scope -----------------------------------------------------------------------------------

    def layout(self, tensor: Tensor) -> Layout | None:
        return next(iter(self._values[tensor])) if tensor in self._values else None

    def read(self, tensor: Tensor, layout: Layout | None) -> Value:
        known = self._values.setdefault(tensor, {})
        if layout in known:
            return known[layout]
        if tensor.data is not None:
            known[layout] = self._constant_in(tensor, layout)
            return known[layout]
        source = next(iter(known.values()))
        target = Value(tensor.name, tensor.spec, self._storage(tensor, layout), layout)
        self.steps.append(self._reordered(tensor)(source, target))
        known[layout] = target
        return target

    def _constant_in(self, tensor: Tensor, layout: Layout | None) -> Value:
        """Return the value of a tensor with data in a layout."""
        name, spec, constant = tensor.name, tensor.spec, Storage.CONSTANT
        if layout is None and not tensor.kind.is_updateable:
            return Value(name, spec, constant, array=self.stored(tensor))
        form, make = form_in(tensor, layout, self._reorder)
        packed = self.packed([tensor], form, make, None if layout is None else layout.space)
        return Value(name, spec, constant, layout, **_identity(packed))

    def _reordered(self, tensor: Tensor) -> Reorder:
        return _required(self._reorder, tensor)

    def stored(self, tensor: Tensor) -> Array:
        return stored_elements(tensor, self.packed)

    def write(self, tensor: Tensor, layout: Layout | None) -> Value:
        value = Value(tensor.name, tensor.spec, self._storage(tensor, layout), layout)
        self._values[tensor] = {layout: value}
        return value

    def views(
        self,
        tensors: Sequence[Tensor],
        source: tuple[Tensor, Layout | None],
        layout: Layout | None,
        offsets: Sequence[int],
    ) -> tuple[Value, tuple[Value, ...]] | None:
        on_host = layout is None or layout.space is None
        # an output on the host is written to the application's buffer; others are copied to it
        if on_host and any(self._graph.is_output(tensor) for tensor in tensors):
            return None
        value = self.read(*source)
        root = value.root
        if root.space is not value.space:  # the application's bytes, which a device reads in place
            return None
        made = tuple(
            Value(t.name, t.spec, root.storage, layout, alias_of=value, offset=offset)
            for t, offset in zip(tensors, offsets, strict=True)
        )
        self._values |= {t: {layout: view} for t, view in zip(tensors, made, strict=True)}
        return value, made

    def readers(self, tensor: Tensor) -> Sequence[Node]:
        return self._graph.consumers(tensor)

    def writer(self, tensor: Tensor) -> Node | None:
        return self._graph.producer(tensor)

    def packed(
        self,
        inputs: Sequence[Tensor | None],
        form: str,
        make: MakeForm,
        space: Space | None = None,
    ) -> Packed | Slot:
        if any(tensor is not None and tensor.kind.is_updateable for tensor in inputs):
            key = tuple(inputs), form
            if key not in self.slots:
                self.slots[key] = Slot(inputs, form, make, space)
            return self.slots[key]
        packed = packed_in(space, self.weights, inputs, form, make)
        self.forms[packed.key] = packed
        return packed

    def constant(self, name: str, form: Packed | Slot, layout: Layout | None) -> Value:
        data, layouted = form.data, layout is not None and layout.space is not None
        spec = Spec(DType.UINT_8, (data.nbytes,)) if layouted else _spec_of(data)
        return Value(name, spec, Storage.CONSTANT, layout, **_identity(form))

    def scratch(self, nbytes: int, layout: Layout | None) -> Value:
        return Value("scratch", Spec(DType.UINT_8, (nbytes,)), Storage.ARENA, layout)

    # -- inside ----------------------------------------------------------------------------------

    def _storage(self, tensor: Tensor, layout: Layout | None) -> Storage:
        direct = layout is None and self._graph.is_output(tensor)
        return Storage.OUTPUT if direct else Storage.ARENA


def kernel_call(scope: Scope, head: NodeView, fused: Sequence[NodeView]) -> KernelCall:
    """Return the call of a group of nodes.

    Args:
        scope: Declares what the kernel reads and writes.
        head: The node that the kernel is registered for.
        fused: Nodes fused after it, in order.
    """
    schema, _ = head.definition
    tensors = [_present(t) for t in head.node.inputs]
    # operands of fused nodes follow all declared inputs of the head
    tensors += [None] * (len(schema.inputs) - len(tensors))
    before, tails = head, []
    within = {head.node.outputs[0]}
    for view in fused:
        operands: list[int | None] = []
        for tensor in view.node.inputs:
            if tensor in within:
                operands.append(None)
            else:
                operands.append(len(tensors))
                tensors.append(_present(tensor))
        tails.append(Tail(view, tuple(operands), joins=operands.count(None) > 1))
        within.add(view.node.outputs[0])
        before = view
    return KernelCall(scope, head, tuple(tails), tuple(tensors), before.node.outputs)


def make_step(
    scope: Scope,
    group: Sequence[NodeView],
    kernels: KernelRegistry,
    reorder: Reorder | None,
    choice: int | None = None,
) -> tuple[Step, int] | None:
    """Return the step of a group and the choice of how it runs; None if its kernel declines.

    Args:
        scope: Declares what the kernel reads and writes.
        group: The nodes; a single node always has a step.
        kernels: The kernels.
        reorder: Converts between their layouts.
        choice: As returned before for this group; by default the first that supports it.
    """
    head, *fused = group
    kernel = kernels.find(head)
    try:
        if kernel is not None and choice is None:
            made = kernel.make(kernel_call(scope, head, fused))
            if made is not None or fused:
                return made
        elif kernel is not None and choice is not None and 0 <= choice < len(kernel.makes):
            step = kernel.makes[choice](kernel_call(scope, head, fused))
            return None if step is None else (step, choice)
        if fused:
            return None
        return _simulated(scope, head, kernels, reorder), SIMULATED
    except DovetailError as error:
        error.where = error.where or head.node.where
        raise


def _simulated(
    scope: Scope, head: NodeView, kernels: KernelRegistry, reorder: Reorder | None
) -> Step:
    """Return the step of a node that no kernel supports."""
    call = kernel_call(scope, head, [])
    has_kernel = kernels.find_real(head) is not None
    form = float_graph(head, scope.packed) if has_kernel else None
    if form is None:
        return reference_step(call)
    plan = build_plan(form, kernels, scope.weights, scope.options, reorder=reorder)
    return dequantized_step(call, plan.steps, plan.inputs, plan.outputs)


def form_in(tensor: Tensor, layout: Layout | None, reorder: Reorder | None) -> tuple[str, MakeForm]:
    """Return the form of a tensor with data in a layout, and the function that computes it."""
    if layout is None:
        return "plain", first_array
    into, name = _required(reorder, tensor), tensor.name

    def make(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> Array:
        spec = specs[0]
        if spec is None:
            raise AssertionError(f"a form of {name} without its spec")
        space, size = layout.space, layout.nbytes
        data = aligned_empty(size) if space is None else space.allocate(size)
        source = Value(name, spec, Storage.CONSTANT, array=arrays[0])
        target = Value(name, spec, Storage.CONSTANT, layout, array=data)
        into(source, target).bind(ArenaBuffers(Arena({})))()
        return on_host(data)

    return f"reordered/{layout.key}", make


def packed_in(
    space: Space | None,
    weights: WeightStore,
    inputs: Sequence[Tensor | None],
    form: str,
    make: MakeForm,
) -> Packed:
    """Return a form of constants in a memory space."""
    if space is None:
        return weights.packed(inputs, form, make)
    return weights.packed(
        inputs, form, lambda *given: uploaded(space, make(*given)), space=space.name
    )


def on_host(data: Array | Block) -> Array:
    """Return the data of a constant as an array; a block's bytes."""
    return data if isinstance(data, np.ndarray) else data.to_host()


def _spec_of(array: Array) -> Spec:
    return Spec(DType.of(array.dtype), array.shape)


def _required(reorder: Reorder | None, tensor: Tensor) -> Reorder:
    if reorder is None:
        raise AssertionError(f"{tensor.name} is needed in another layout, but there is no reorder")
    return reorder


def stored_elements(tensor: Tensor, packed: PackForm) -> Array:
    """Return the stored elements of a static tensor; those of packed types are a form."""
    if tensor.dtype.bits < tensor.dtype.storage.itemsize * _BYTE:
        found: Array = packed([tensor], "unpacked", first_array).data
        return found
    return tensor.stored()


def first_array(arrays: Sequence[Array | None], _: object) -> Array:
    """Return the elements of the first input: the form of plain and of unpacked constants."""
    if arrays[0] is None:
        raise AssertionError("a form of a tensor without data")
    return arrays[0]


def _identity(form: Packed | Slot) -> dict[str, Any]:
    """Return the fields of a constant value that its form determines."""
    return {
        "array": form.data,
        "key": form.key,
        "slot": form if isinstance(form, Slot) else None,
    }


def _present(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None or tensor.kind is TensorKind.NULL else tensor


def dense_copy(value: Value) -> Value:
    """Return a new row-major value for the content of one in an engine's layout."""
    array = np.empty(value.spec.shape, value.spec.dtype.storage)
    return Value(value.name, value.spec, Storage.CONSTANT, array=array)
