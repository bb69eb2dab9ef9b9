"""Kernels: functions from a `KernelCall` to a `Step`, registered by package and op."""

from __future__ import annotations

import enum
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dovetail.container import WeightStore
from dovetail.errors import PluginError
from dovetail.ir import Array, Node, Spec, Tensor
from dovetail.ops import OpRegistry
from dovetail.runtime.contract import NodeView
from dovetail.runtime.plan.values import Bound, Buffers, Layout, Step, Value

Make = Callable[["KernelCall"], Step | None]
CanFuse = Callable[[Sequence[NodeView], NodeView], bool]


class Branch(enum.Enum):
    """A node beside a chain that may run with it, if one other node alone reads both results.

    GATE: it reads what the chain's last node wrote, and nothing else. TWIN: it is of the last
    node's op and has its first input too; kernels that take twins take no other nodes.
    """

    GATE = enum.auto()
    SIBLING = enum.auto()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A registered kernel.

    Attributes:
        make: Gives the step, or None, before it declares anything, where this call is not one it
            is made for; the op then runs by its reference.
        can_fuse: Whether the kernel runs a node (the second argument) together with the nodes it
            has already (the first). Beyond what `branch` allows, that node alone reads the last
            one's first output, and nobody reads its others.
        branch: What `can_fuse` is also asked for: for such a branch, then for the node that joins
            it and the chain.
    """

    make: Make
    can_fuse: CanFuse | None = None
    branch: Branch | None = None


class KernelRegistry:
    """The kernels of one backend.

    Args:
        backend: Its name, as in the entry points `BACKEND:PACKAGE` of `dovetail.kernels`.
    """

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._kernels: dict[tuple[str, str], Kernel] = {}

    def register(
        self,
        package: str,
        op_type: str,
        *,
        can_fuse: CanFuse | None = None,
        branch: Branch | None = None,
    ) -> Callable[[Make], Make]:
        """Register the decorated function as the kernel of an op; see `Kernel`.

        Raises:
            PluginError: The op has one already.
        """

        def register(make: Make) -> Make:
            if (package, op_type) in self._kernels:
                raise PluginError(
                    f"there are two {self.backend} kernels for {package}::{op_type}",
                    code="PLUGIN_CONFLICT",
                )
            self._kernels[package, op_type] = Kernel(make, can_fuse, branch)
            return make

        return register

    def find(self, package: str, op_type: str) -> Kernel | None:
        """Return an op's kernel, if there is one."""
        return self._kernels.get((package, op_type))

    def joined(self, other: KernelRegistry) -> KernelRegistry:
        """Return a registry with the kernels of both.

        Raises:
            PluginError: Both have a kernel for one op.
        """
        both = KernelRegistry(self.backend)
        for registry in (self, other):
            for (package, op_type), kernel in registry._kernels.items():
                add = both.register(
                    package, op_type, can_fuse=kernel.can_fuse, branch=kernel.branch
                )
                add(kernel.make)
        return both

    def with_fallback(self, other: KernelRegistry) -> KernelRegistry:
        """Return a registry where each of these kernels is asked first, then the other's.

        Where both have a kernel for an op, this one's says what it absorbs; a group that it then
        declines is made node by node.
        """
        both = KernelRegistry(self.backend)
        both._kernels = other._kernels | {
            key: _first_of(kernel, other._kernels.get(key)) for key, kernel in self._kernels.items()
        }
        return both

    def check(self, ops: OpRegistry) -> None:
        """Refuses kernels for ops that do not exist.

        Raises:
            UnsupportedOpError: Names the op.
        """
        for package, op_type in self._kernels:
            ops.find(package, op_type)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._kernels)


def _first_of(kernel: Kernel, other: Kernel | None) -> Kernel:
    if other is None:
        return kernel

    def make(call: KernelCall) -> Step | None:
        step = kernel.make(call)
        # the other one knows nothing of what this one absorbed
        return other.make(call) if step is None and not call.fused else step

    return Kernel(make, kernel.can_fuse, kernel.branch)


@dataclass(frozen=True, slots=True)
class Tail:
    """A node run together with the call's own.

    Attributes:
        view: The node.
        operands: For each of its inputs, the index of the call's input, or None for a result of
            the nodes before it.
        joins: Whether it reads two such results: a branch's, and the one beside it.
    """

    view: NodeView
    operands: tuple[int | None, ...]
    joins: bool = False


class Scope(Protocol):
    """What the builder lets a kernel do; `KernelCall` is its face."""

    weights: WeightStore
    options: Any

    def layout(self, tensor: Tensor) -> Layout | None:
        """Return the layout that a tensor is in."""

    def read(self, tensor: Tensor, layout: Layout | None) -> Value:
        """Return a tensor's value in a layout, after a reorder if need be."""

    def write(self, tensor: Tensor, layout: Layout | None) -> Value:
        """Return the value that a tensor is written to."""

    def views(
        self,
        tensors: Sequence[Tensor],
        source: tuple[Tensor, Layout | None],
        layout: Layout | None,
        offsets: Sequence[int],
    ) -> tuple[Value, tuple[Value, ...]] | None:
        """Create tensors views of another one's bytes in a layout, if all may be; return that, too.

        Nothing is declared where it gives None.
        """

    def readers(self, tensor: Tensor) -> Sequence[Node]:
        """Return the nodes that read a tensor."""

    def writer(self, tensor: Tensor) -> Node | None:
        """Return the node that writes a tensor."""

    def constant(self, name: str, array: Array, layout: Layout | None) -> Value:
        """Return a constant value."""

    def scratch(self, nbytes: int) -> Value:
        """Return a scratchpad."""


class KernelCall:
    """One node, or several that run together, as a kernel sees it.

    Attributes:
        head: The node that the kernel is registered for.
        tail: Nodes absorbed after it, in order.
        tensors: Inputs: the head's, then what the tail's nodes read beside the chain; None for a
            left-out one.
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
        """Name, in the user's model, of all nodes that run together."""
        nodes = (self.head.node, *(t.view.node for t in self.fused))
        return tuple(dict.fromkeys(name for node in nodes for name in node.sources or (node.name,)))

    def spec(self, index: int) -> Spec:
        """Return the spec of an input that is not left out."""
        return self._tensor(index).spec

    def has(self, index: int) -> bool:
        """Return whether an input is there."""
        return index < len(self.tensors) and self.tensors[index] is not None

    def static(self, index: int) -> Array | None:
        """Return the stored elements of an input whose data are known and cannot change."""
        tensor = self.tensors[index] if index < len(self.tensors) else None
        if tensor is None or tensor.data is None or tensor.kind.is_updateable:
            return None
        return tensor.stored()

    def packed(self, index: int | Sequence[int], layout: str, make: Callable[[], Array]) -> Array:
        """Return a packed form of static inputs, made once per context for their content and specs.

        Args:
            index: The input, or all that are packed together; some of these may be left out.
            layout: Names the form.
            make: Makes it.
        """
        several = (index,) if isinstance(index, int) else tuple(index)
        tensors = [self.tensors[i] if self.has(i) else None for i in several]
        data = [None if t is None else t.data for t in tensors]
        first = next((blob for blob in data if blob is not None), None)
        if first is None:
            raise AssertionError(f"{self.head.node.where}: inputs {several} have no data")
        specs = ["" if t is None else f"{t.dtype.name}{list(t.shape)}" for t in tensors]
        if len(several) > 1:  # the store knows of one content: all go into the name of the form
            hashes = ["" if blob is None else blob.hash for blob in data]
            specs = [hashlib.sha256(" ".join((*specs, *hashes)).encode()).hexdigest()]
        return self._scope.weights.get(first, f"{layout} {specs[0]}", make)

    def layout(self, index: int) -> Layout | None:
        """Return the layout that an input is in: the cheapest one to read it in."""
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
        """Declare that the step reads a constant."""
        value = self._scope.constant(f"{self.nodes[0]}.constant", array, layout)
        self._reads.append(value)
        return value

    def scratch(self, nbytes: int) -> Value:
        """Declare that the step needs a scratchpad."""
        value = self._scope.scratch(nbytes)
        self._scratch.append(value)
        return value

    def readers(self, index: int = 0) -> Sequence[Node]:
        """Return the nodes that read an output; beside them the application may."""
        return self._scope.readers(self.outputs[index])

    def writer(self, tensor: Tensor) -> Node | None:
        """Return the node that writes a tensor of the graph, if one does."""
        return self._scope.writer(tensor)

    def view(
        self,
        index: int = 0,
        layout: Layout | None = None,
        offsets: Sequence[int] = (0,),
        *,
        source: Layout | None = None,
    ) -> Step | None:
        """Create the outputs views of an input's bytes: a step that does nothing.

        Args:
            index: The input.
            layout: What the outputs are in.
            offsets: For each output, how many bytes of the input come before it.
            source: What the input is in.

        Returns:
            The step, or None where some bytes cannot be shared; the kernel must then copy all.
        """
        found = self._scope.views(self.outputs, (self._tensor(index), source), layout, offsets)
        if found is None:
            return None
        value, targets = found
        return Step(self.nodes, (value,), targets, bind=lambda buffers: no_op)

    def step(
        self,
        bind: Callable[[Buffers], Bound],
        *,
        in_place: Sequence[tuple[int, int]] = (),
    ) -> Step:
        """Return the step over everything declared so far.

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
        )

    def array_step(
        self, run: Callable[..., None], *, in_place: Sequence[tuple[int, int]] = ()
    ) -> Step:
        """Return a step of a function of arrays: what was read, what is written, the scratchpads.

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
            raise AssertionError(f"{self.head.node.where}: input {index} is left out")
        return tensor


def no_op() -> None:
    """The call of a step whose result is a view."""


def call_sequence(calls: Iterable[Callable[[], object]]) -> Bound:
    """Return one call that makes all of these."""
    found = tuple(calls)

    def run() -> None:
        for call in found:
            call()

    return run
