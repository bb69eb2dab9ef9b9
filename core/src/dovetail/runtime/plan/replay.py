"""The scope of a step that is made again: its recorded values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dovetail.container import HOST, FormKey, MakeForm, Packed
from dovetail.errors import ContainerError
from dovetail.ir import Array, Node, Tensor
from dovetail.ops import CheckedGraph
from dovetail.runtime.plan.builder import form_in, packed_in, stored_elements
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.spaces import Space
from dovetail.runtime.plan.values import Layout, Step, Value

if TYPE_CHECKING:  # a remaker has replays
    from dovetail.runtime.plan.remaking import Remaker


class Replay:
    """The `Scope` of a step that is made again: returns its recorded values, in order.

    Args:
        remaker: The remaker, which knows the plan.
        graph: The graph, or an excerpt of it.
        step: The recorded step.
        adopts: Whether slots are computed from the graph's tensors from now on.
    """

    def __init__(self, remaker: Remaker, graph: CheckedGraph, step: Step, *, adopts: bool) -> None:
        self.weights = remaker.weights
        self.options = remaker.options
        self._remaker = remaker
        self._graph = graph
        self._step = step
        self._adopts = adopts
        self._reads, self._writes = iter(step.reads), iter(step.writes)
        self._scratch = iter(step.scratch)

    def layout(self, tensor: Tensor) -> Layout | None:
        """Return the layout that a tensor was written in; see `Scope`."""
        return None if tensor.data is not None else self._remaker.layouts.get(tensor.name)

    def read(self, tensor: Tensor, layout: Layout | None) -> Value:
        """Return the next value that the step reads; see `Scope`."""
        value = self._of(self._reads, tensor, layout)
        if self._adopts and value.slot is not None and not value.slot.has_maker:
            value.slot.adopt([tensor], form_in(tensor, layout, self._remaker.reorder)[1])
        return value

    def write(self, tensor: Tensor, layout: Layout | None) -> Value:
        """Return the next value that the step writes; see `Scope`."""
        return self._of(self._writes, tensor, layout)

    def views(
        self,
        tensors: Sequence[Tensor],
        source: tuple[Tensor, Layout | None],
        layout: Layout | None,
        offsets: Sequence[int],
    ) -> tuple[Value, tuple[Value, ...]] | None:
        """Return None; see `Scope`."""
        return None  # views have recipes

    def readers(self, tensor: Tensor) -> Sequence[Node]:
        """Return the nodes that read a tensor; see `Scope`."""
        return self._graph.consumers(tensor)

    def writer(self, tensor: Tensor) -> Node | None:
        """Return the node that writes a tensor; see `Scope`."""
        return self._graph.producer(tensor)

    def stored(self, tensor: Tensor) -> Array:
        """Return the stored elements of a static tensor; see `Scope`."""
        return stored_elements(tensor, self.packed)

    def packed(
        self,
        inputs: Sequence[Tensor | None],
        form: str,
        make: MakeForm,
        space: Space | None = None,
    ) -> Packed | Slot:
        """Return a form of the plan, or a new one; see `Scope`."""
        if not any(tensor is not None and tensor.kind.is_updateable for tensor in inputs):
            key = FormKey.of(inputs, form, HOST if space is None else space.name)
            found = self._remaker.forms.get(key)
            return packed_in(space, self.weights, inputs, form, make) if found is None else found
        names = tuple("" if tensor is None else tensor.name for tensor in inputs)
        for slot in self._remaker.slots:
            if (slot.inputs, slot.form) == (names, form):
                if self._adopts:
                    slot.adopt(inputs, make)
                return slot
        raise mismatch(self._step, f"no slot '{form}' of {', '.join(names)}")

    def constant(self, name: str, form: Packed | Slot, layout: Layout | None) -> Value:
        """Return the next constant that the step reads; see `Scope`."""
        data, layouted = form.data, layout is not None and layout.space is not None
        shape = (data.nbytes,) if layouted else data.shape
        value = self._next(self._reads, name, layout, shape)
        value.array = data
        return value

    def scratch(self, nbytes: int, layout: Layout | None) -> Value:
        """Return the next scratchpad of the step; see `Scope`."""
        return self._next(self._scratch, "scratch", layout, (nbytes,))

    def _of(self, values: Any, tensor: Tensor, layout: Layout | None) -> Value:
        """Return the next value, which is that of a tensor, with the tensor's encoding."""
        value = self._next(values, tensor.name, layout, tensor.shape)
        if value.spec.dtype is not tensor.dtype:
            raise mismatch(self._step, f"'{tensor.name}' has the type {tensor.dtype.name}")
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
            raise mismatch(self._step, f"'{name}' is declared otherwise")
        if tuple(value.spec.shape) != tuple(shape):
            raise mismatch(self._step, f"'{name}' has the shape {shape}")
        return value


def mismatch(step: Step, why: str) -> ContainerError:
    """Return the error of a step that cannot be made again as it was recorded."""
    return ContainerError(
        f"the step of {', '.join(step.nodes)} does not match the model: {why}",
        code="CONTAINER_INCOMPATIBLE",
        hint="prepare the model again",
    )
