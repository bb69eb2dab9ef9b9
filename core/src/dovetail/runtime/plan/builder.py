"""The builder, which turns a graph into steps: it groups nodes and inserts reorders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.container import MakeForm, Packed, WeightStore, aligned_empty
from dovetail.errors import DovetailError
from dovetail.ir import DType, Node, Spec, Tensor, TensorKind
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan.arena import Arena, ArenaBuffers
from dovetail.runtime.plan.dequantized import dequantized_step, float_graph
from dovetail.runtime.plan.kernels import Branch, Kernel, KernelCall, KernelRegistry, Tail
from dovetail.runtime.plan.reference import reference_step
from dovetail.runtime.plan.values import Layout, Step, Storage, Value

# Creates the step that converts the first value to the second value's layout.
Reorder = Callable[[Value, Value], Step]


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph as steps.

    Attributes:
        steps: In order of execution.
        inputs, outputs: The application's values by tensor name.
        reorder: The engine's reorder, to read values in the engine's layouts.
    """

    steps: tuple[Step, ...]
    inputs: dict[str, Value]
    outputs: dict[str, Value]
    reorder: Reorder | None


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
    for head, fused in _groups(graph, kernels):
        if control is not None and control.limited:
            control.check()
        builder.add(head, fused, kernels)
    outputs = {t.name: builder.finish(t) for t in graph.outputs}
    return Plan(tuple(builder.steps), values, outputs, reorder)


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
        self._reorder = reorder
        # each tensor's values by layout; the first is the written one
        self._values: dict[Tensor, dict[Layout | None, Value]] = {}

    def application(self, tensor: Tensor, storage: Storage) -> Value:
        value = Value(tensor.name, tensor.spec, storage)
        self._values[tensor] = {None: value}
        return value

    def add(self, head: NodeView, fused: list[NodeView], kernels: KernelRegistry) -> None:
        kernel = kernels.find(head.package, head.op_type)
        try:
            step = None if kernel is None else kernel.make(self._call(head, fused))
        except DovetailError as error:
            error.where = error.where or head.node.where
            raise
        if step is not None:
            self.steps.append(step)
        elif fused:
            for view in (head, *fused):
                self.add(view, [], kernels)
        else:
            self.steps.append(self._simulated(head, kernels))

    def _simulated(self, head: NodeView, kernels: KernelRegistry) -> Step:
        """Return the step of a node that no kernel supports."""
        call = self._call(head, [])
        has_kernel = kernels.find(head.package, head.op_type) is not None
        form = float_graph(head) if has_kernel else None
        if form is None:
            return reference_step(call)
        plan = build_plan(form, kernels, self.weights, self.options, reorder=self._reorder)
        return dequantized_step(call, plan.steps, plan.inputs, plan.outputs)

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
        if not known and tensor.data is not None:
            known[None] = Value(tensor.name, tensor.spec, Storage.CONSTANT, array=tensor.stored())
        if layout in known:
            return known[layout]
        if self._reorder is None:
            raise AssertionError(
                f"{tensor.name} is needed in another layout, but there is no reorder"
            )
        source = next(iter(known.values()))
        if layout is not None and tensor.data is not None and not tensor.kind.is_updateable:
            array = aligned_empty(layout.nbytes)
            target = Value(tensor.name, tensor.spec, Storage.CONSTANT, layout, array=array)
            self._reorder(source, target).bind(ArenaBuffers(Arena(0, {})))()
        else:
            target = Value(tensor.name, tensor.spec, self._storage(tensor, layout), layout)
            self.steps.append(self._reorder(source, target))
        known[layout] = target
        return target

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
        if any(self._graph.is_output(tensor) for tensor in tensors):
            return None
        value = self.read(*source)
        root = value.root
        if root.layout != value.layout:  # a view of itself with another spec
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

    def packed(self, inputs: Sequence[Tensor | None], form: str, make: MakeForm) -> Packed:
        return self.weights.packed(inputs, form, make)

    def constant(self, name: str, packed: Packed, layout: Layout | None) -> Value:
        array, key = packed.data, packed.key
        spec = Spec(DType.of(array.dtype), array.shape)
        return Value(name, spec, Storage.CONSTANT, layout, array=array, key=key)

    def scratch(self, nbytes: int) -> Value:
        return Value("scratch", Spec(DType.UINT_8, (nbytes,)), Storage.ARENA)

    # -- inside ----------------------------------------------------------------------------------

    def _storage(self, tensor: Tensor, layout: Layout | None) -> Storage:
        direct = layout is None and self._graph.is_output(tensor)
        return Storage.OUTPUT if direct else Storage.ARENA

    def _call(self, head: NodeView, fused: list[NodeView]) -> KernelCall:
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
        return KernelCall(self, head, tuple(tails), tuple(tensors), before.node.outputs)


def _present(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None or tensor.kind is TensorKind.NULL else tensor


def _groups(
    graph: CheckedGraph, kernels: KernelRegistry
) -> Iterator[tuple[NodeView, list[NodeView]]]:
    """Yield groups of nodes that run together, at the position of their last node."""
    chains: dict[Node, list[NodeView]] = {}  # by the last node
    absorbed: set[Node] = set()
    for view in graph.nodes:
        if view.node in absorbed:
            continue
        kernel = kernels.find(view.package, view.op_type)
        chain = [view] if kernel is None else _chain(graph, view, kernel, absorbed)
        absorbed.update(link.node for link in chain)
        chains[chain[-1].node] = chain
    for view in graph.nodes:
        if view.node in chains:
            head, *fused = chains[view.node]
            yield head, fused


def _chain(
    graph: CheckedGraph,
    head: NodeView,
    kernel: Kernel,
    absorbed: set[Node],
) -> list[NodeView]:
    chain = [head]
    while kernel.can_fuse is not None:
        longer = list(chain)
        for node in _following(graph, chain[-1].node, kernel.branch):
            if node in absorbed or not kernel.can_fuse(longer, graph.view(node)):
                return chain
            longer.append(graph.view(node))
        if len(longer) == len(chain):
            break
        chain = longer
    return chain


def _following(graph: CheckedGraph, node: Node, branch: Branch | None) -> tuple[Node, ...]:
    """Return the next nodes to fuse: the only reader of a result, or a branch and its join."""
    if branch is Branch.SIBLING:
        return _sibling(graph, node)
    if (reader := _only_reader(graph, node)) is not None:
        return (reader,)
    return _gate(graph, node) if branch is Branch.GATE else ()


def _gate(graph: CheckedGraph, node: Node) -> tuple[Node, ...]:
    if len(node.outputs) != 1 or not graph.is_internal(node.outputs[0]):
        return ()
    result, readers = node.outputs[0], graph.consumers(node.outputs[0])
    for gate, joint in (readers, readers[::-1]) if len(readers) == 2 else ():
        is_gate = gate.inputs == (result,) and _only_reader(graph, gate) is joint
        if is_gate and _joins(joint, node, gate):
            return gate, joint
    return ()


def _sibling(graph: CheckedGraph, node: Node) -> tuple[Node, ...]:
    joint = _only_reader(graph, node)
    if joint is None:
        return ()
    for tensor in joint.inputs:
        twin = None if tensor is None else graph.producer(tensor)
        if twin is None or twin is node or twin.inputs[:1] != node.inputs[:1]:
            continue
        same_op = (twin.package, twin.op_type) == (node.package, node.op_type)
        if same_op and _only_reader(graph, twin) is joint and _joins(joint, node, twin):
            return twin, joint
    return ()


def _joins(joint: Node, *nodes: Node) -> bool:
    """Return whether a node reads the first outputs of these nodes and nothing else."""
    return sorted(map(id, joint.inputs)) == sorted(id(node.outputs[0]) for node in nodes)


def _only_reader(graph: CheckedGraph, node: Node) -> Node | None:
    """Return the only reader of the first output, if nothing else uses the node's outputs."""
    result, *others = node.outputs
    reader = graph.only_reader(result)
    if reader is None or reader.inputs.count(result) > 1:
        return None
    is_read = any(graph.is_visible(t) or graph.consumers(t) for t in others)
    return None if is_read else reader


def dense_copy(value: Value) -> Value:
    """Return a new row-major value for the content of one in an engine's layout."""
    array = np.empty(value.spec.shape, value.spec.dtype.storage)
    return Value(value.name, value.spec, Storage.CONSTANT, array=array)
