"""Kernel calls: the nodes, tensors and options of a kernel, and what it declares of its step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from dovetail.container import MakeForm, Packed, WeightStore
from dovetail.ir import Array, Node, Spec, Tensor
from dovetail.ops import NodeView
from dovetail.runtime.plan.binds import VIEW
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.spaces import Space, uploaded
from dovetail.runtime.plan.values import Bound, Buffers, Layout, Step, Value


class Tail(msgspec.Struct, frozen=True):
    """A node that is fused with the head of a call.

    Attributes:
        view: The node.
        operands: For each of its inputs, the index of the call's input, or None for a result of the
            preceding nodes.
        joins: Whether it reads two such results: those of a branch and of the chain.
    """

    view: NodeView
    operands: tuple[int | None, ...]
    joins: bool = False


class Scope(Protocol):
    """Operations of the builder for kernels, which use them through `KernelCall`."""

    @property
    def weights(self) -> WeightStore:
        """The store of forms."""

    @property
    def options(self) -> Any:
        """The backend's options."""

    def layout(self, tensor: Tensor) -> Layout | None:
        """Return the layout that a tensor is in."""

    def read(self, tensor: Tensor, layout: Layout | None) -> Value:
        """Return a tensor's value in a layout; insert a reorder if needed."""

    def write(self, tensor: Tensor, layout: Layout | None) -> Value:
        """Return the value that a tensor is written to."""

    def views(
        self,
        tensors: Sequence[Tensor],
        source: tuple[Tensor, Layout | None],
        layout: Layout | None,
        offsets: Sequence[int],
    ) -> tuple[Value, tuple[Value, ...]] | None:
        """Declare tensors as views of another tensor's bytes, if possible; return all the values.

        Nothing is declared if the result is None.
        """

    def readers(self, tensor: Tensor) -> Sequence[Node]:
        """Return the nodes that read a tensor."""

    def writer(self, tensor: Tensor) -> Node | None:
        """Return the node that writes a tensor."""

    def stored(self, tensor: Tensor) -> Array:
        """Return the stored elements of a static tensor."""

    def packed(
        self,
        inputs: Sequence[Tensor | None],
        form: str,
        make: MakeForm,
        space: Space | None = None,
    ) -> Packed | Slot:
        """Return a form of tensors with data in a memory space; see `KernelCall.packed`."""

    def constant(self, name: str, form: Packed | Slot, layout: Layout | None) -> Value:
        """Return a constant value."""

    def scratch(self, nbytes: int, layout: Layout | None) -> Value:
        """Return a scratchpad."""


class KernelCall:
    """A node, or several fused ones, for which a kernel creates a step.

    Attributes:
        head: The node that the kernel is registered for.
        fused: Nodes fused after it, in order.
        tensors: Inputs: the head's, then those that fused nodes read besides the chain; None for an
            omitted one.
        outputs: Tensors that the last node writes.
    """

    def __init__(
        self,
        scope: Scope,
        head: NodeView,
        fused: tuple[Tail, ...],
        tensors: tuple[Tensor | None, ...],
        outputs: tuple[Tensor, ...],
    ) -> None:
        self._scope = scope
        self.head = head
        self.fused = fused
        self.tensors = tensors
        self.outputs = outputs
        self._reads: list[Value] = []
        self._writes: list[Value] = []
        self._scratch: list[Value] = []

    @property
    def op(self) -> Any:
        """The head's op with its params; its class is the registered one."""
        return self.head.op

    @property
    def options(self) -> Any:
        """The backend's options."""
        return self._scope.options

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names, in the user's model, of all nodes that run together."""
        nodes = (self.head.node, *(t.view.node for t in self.fused))
        return tuple(dict.fromkeys(name for node in nodes for name in node.sources or (node.name,)))

    @property
    def has_declared(self) -> bool:
        """True once a value of the step was declared."""
        return bool(self._reads or self._writes or self._scratch)

    def spec(self, index: int) -> Spec:
        """Return the spec of an input that is not omitted."""
        return self._tensor(index).spec

    def has(self, index: int) -> bool:
        """Return whether an input is present."""
        return index < len(self.tensors) and self.tensors[index] is not None

    def static(self, index: int) -> Array | None:
        """Return the stored elements of a constant input, or None for other inputs."""
        tensor = self.tensors[index] if index < len(self.tensors) else None
        if tensor is None or tensor.data is None or tensor.kind.is_updateable:
            return None
        return self._scope.stored(tensor)

    def has_data(self, index: int) -> bool:
        """Return whether an input has data before a run, which an update may replace."""
        return self.has(index) and self._tensor(index).data is not None

    def packed(self, index: int | Sequence[int], form: str, make: MakeForm) -> Array:
        """Return a form of inputs with data, computed once per context for equal inputs.

        A form of updateable inputs is the graph's own: an update computes it again, in place.

        Args:
            index: The input, or all that the form depends on; some of these may be omitted.
            form: Name of the form, see `FormKey`.
            make: Returns the form of the inputs' stored elements and specs; must not use others.
        """
        found: Array = self._packed(index, form, make).data
        return found

    def read_packed(
        self,
        index: int | Sequence[int],
        form: str,
        make: MakeForm,
        layout: Layout | None = None,
    ) -> Value:
        """Declare that the step reads a form of inputs with data, in a layout; see `packed`."""
        space = None if layout is None else layout.space
        return self._constant(self._packed(index, form, make, space), layout)

    def _packed(
        self, index: int | Sequence[int], form: str, make: MakeForm, space: Space | None = None
    ) -> Packed | Slot:
        several = (index,) if isinstance(index, int) else tuple(index)
        inputs = [self.tensors[i] if self.has(i) else None for i in several]
        return self._scope.packed(inputs, form, make, space)

    def layout(self, index: int) -> Layout | None:
        """Return the layout that an input is stored in, which is the cheapest to read."""
        return self._scope.layout(self._tensor(index))

    def read(self, index: int, layout: Layout | None = None) -> Value:
        """Declare that the step reads an input in a layout."""
        value = self._scope.read(self._tensor(index), layout)
        self._reads.append(value)
        return value

    def write(self, index: int = 0, layout: Layout | None = None) -> Value:
        """Declare that the step writes an output in a layout."""
        value = self._scope.write(self.outputs[index], layout)
        self._writes.append(value)
        return value

    def constant(self, array: Array, layout: Layout | None = None) -> Value:
        """Declare that the step reads a constant that does not depend on inputs."""
        space = None if layout is None else layout.space
        if space is None:
            return self._constant(self._scope.weights.constant(array), layout)
        form = self._scope.weights.constant(
            array, space=space.name, make=functools.partial(uploaded, space)
        )
        return self._constant(form, layout)

    def _constant(self, packed: Packed | Slot, layout: Layout | None) -> Value:
        value = self._scope.constant(f"{self.nodes[0]}.constant", packed, layout)
        self._reads.append(value)
        return value

    def scratch(self, nbytes: int, layout: Layout | None = None) -> Value:
        """Declare that the step needs a scratchpad, in the memory space of a layout."""
        value = self._scope.scratch(nbytes, layout)
        self._scratch.append(value)
        return value

    def readers(self, index: int = 0) -> Sequence[Node]:
        """Return the nodes that read an output; the application may read it too."""
        return self._scope.readers(self.outputs[index])

    def writer(self, tensor: Tensor) -> Node | None:
        """Return the node that writes a tensor of the graph, or None."""
        return self._scope.writer(tensor)

    def view(
        self,
        index: int = 0,
        layout: Layout | None = None,
        offsets: Sequence[int] = (0,),
        *,
        source: Layout | None = None,
    ) -> Step | None:
        """Declare the outputs as views of an input's bytes, and return a step that does nothing.

        Args:
            index: The input.
            layout: Layout of the outputs.
            offsets: Offset of each output in the input, in bytes.
            source: Layout of the input.

        Returns:
            The step, or None if some bytes cannot be shared; the kernel must then copy all outputs.
        """
        found = self._scope.views(self.outputs, (self._tensor(index), source), layout, offsets)
        if found is None:
            return None
        value, targets = found
        return Step(self.nodes, (value,), targets, bind=VIEW)

    def step(
        self,
        bind: Callable[[Buffers], Bound],
        *,
        in_place: Sequence[tuple[int, int]] = (),
    ) -> Step:
        """Return the step with everything declared so far.

        Args:
            bind: See `Step.bind`.
            in_place: Pairs (n-th declared write, n-th declared read) that may share their bytes.
        """
        return Step(
            self.nodes,
            tuple(self._reads),
            tuple(self._writes),
            bind,
            tuple(self._scratch),
            tuple(in_place),
            sum(view.work for view in (self.head, *(t.view for t in self.fused))),
        )

    def array_step(
        self, run: Callable[..., None], *, in_place: Sequence[tuple[int, int]] = ()
    ) -> Step:
        """Return a step that calls a function with arrays: reads, writes and scratchpads.

        Args:
            run: Called with one array for each declared read, write and scratchpad, in this order.
            in_place: As in `step`.
        """
        values = (*self._reads, *self._writes, *self._scratch)

        def bind(buffers: Buffers) -> Bound:
            arrays = [buffers.array(value) for value in values]
            return functools.partial(run, *arrays)

        return self.step(bind, in_place=in_place)

    def _tensor(self, index: int) -> Tensor:
        tensor = self.tensors[index]
        if tensor is None:
            raise AssertionError(f"{self.head.node.where}: input {index} is omitted")
        return tensor
