"""Kernels: functions from a `KernelCall` to a `Step`, registered by package and op."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from dovetail.errors import PluginError
from dovetail.ops import NodeView, OpRegistry
from dovetail.runtime.plan.kernel_call import KernelCall
from dovetail.runtime.plan.values import Step

Make = Callable[[KernelCall], Step | None]
CanFuse = Callable[[Sequence[NodeView], NodeView], bool]
OnIntegers = Callable[[NodeView], bool]
Key = tuple[str, str]  # package and op


class Branch(enum.Enum):
    """A node next to a chain that may run with it, if one node alone reads both results.

    That node may read constants, too.

    GATE: it reads the output of the chain's last node, and nothing else. SIBLING: it has the op and
    the first input of the last node; kernels that fuse siblings fuse no other nodes.
    """

    GATE = enum.auto()
    SIBLING = enum.auto()


class Kernel(msgspec.Struct, frozen=True):
    """A registered kernel.

    Attributes:
        makes: Functions to try in order. Each returns the step, or None, before it declares
            anything, if it does not support the call; the op then runs by its reference. Only the
            first one supports fused nodes.
        can_fuse: Returns whether the kernel runs a node (the second argument) together with the
            nodes fused so far (the first). Apart from what `branch` allows, that node is the only
            reader of the last node's first output, and its other outputs have no readers.
        branch: Kind of branch for which `can_fuse` is also called: for the branch, then for the
            node that joins it and the chain.
    """

    makes: tuple[Make, ...]
    can_fuse: CanFuse | None = None
    branch: Branch | None = None

    def make(self, call: KernelCall) -> tuple[Step, int] | None:
        """Return the step of a call and the index of the function that made it, or None."""
        for choice, make in enumerate(self.makes[: 1 if call.fused else None]):
            if (step := make(call)) is not None:
                return step, choice
            if call.has_declared:  # the next step would have these values, too
                raise AssertionError(f"{call.head.node.where}: a kernel declared and declined")
        return None


class KernelRegistry:
    """The kernels of one backend, in two tables.

    Kernels for quantized nodes compute on stored integers. Where an op has none, or it declines, a
    quantized node runs like any other: by a kernel that only moves elements, or by simulation.

    Args:
        backend: Name of the backend, as in the entry points `BACKEND:PACKAGE` of
            `dovetail.kernels`.
        on_integers: Returns whether the kernels for quantized nodes may run one; by default each.
        load: Returns the kernels for real values to begin with; by default none. It is called at
            the first use, so that a process that restores graphs imports no kernels.
        load_quantized: Returns those for quantized nodes, as `load`.
    """

    def __init__(
        self,
        backend: str,
        on_integers: OnIntegers = lambda _: True,
        load: Callable[[], Mapping[Key, Kernel]] = dict,
        load_quantized: Callable[[], Mapping[Key, Kernel]] = dict,
    ) -> None:
        self.backend = backend
        self._on_integers = on_integers
        self._load = load
        self._load_quantized = load_quantized

    @cached_property
    def real(self) -> dict[Key, Kernel]:
        """The kernels for real values."""
        return dict(self._load())

    @cached_property
    def quantized(self) -> dict[Key, Kernel]:
        """The kernels for quantized nodes."""
        return dict(self._load_quantized())

    def register(
        self,
        package: str,
        op_type: str,
        *,
        can_fuse: CanFuse | None = None,
        branch: Branch | None = None,
        quantized: bool = False,
    ) -> Callable[[Make], Make]:
        """Register the decorated function as the kernel of an op; see `Kernel`.

        Args:
            package: Name of the op package.
            op_type: Name of the op.
            can_fuse: As in `Kernel`.
            branch: As in `Kernel`.
            quantized: Whether it is for quantized nodes, see `NodeView.is_quantized`.

        Raises:
            PluginError: The op already has such a kernel.
        """

        def register(make: Make) -> Make:
            table = self.quantized if quantized else self.real
            if (package, op_type) in table:
                raise _duplicate(self.backend, package, op_type)
            table[package, op_type] = Kernel((make,), can_fuse, branch)
            return make

        return register

    def find(self, view: NodeView) -> Kernel | None:
        """Return a node's kernel, or None."""
        exact = self.quantized.get(_key(view)) if self.runs_on_integers(view) else None
        return self.find_real(view) if exact is None else _first_of(exact, self.find_real(view))

    def runs_on_integers(self, view: NodeView) -> bool:
        """Return whether a node is quantized and the backend computes it on stored integers."""
        return view.is_quantized and self._on_integers(view)

    def find_real(self, view: NodeView) -> Kernel | None:
        """Return the kernel of a node's op for real values, or None."""
        return self.real.get(_key(view))

    def for_backend(self, backend: str, on_integers: OnIntegers | None = None) -> KernelRegistry:
        """Return these kernels for a backend.

        Args:
            backend: Its name.
            on_integers: As in the class; by default as here.
        """
        wanted = on_integers or self._on_integers
        return KernelRegistry(backend, wanted, lambda: self.real, lambda: self.quantized)

    def joined(self, other: KernelRegistry) -> KernelRegistry:
        """Return a registry with the kernels of both.

        Raises:
            PluginError: Both have a kernel for the same op.
        """
        both = self.for_backend(self.backend)
        for table, more in ((both.real, other.real), (both.quantized, other.quantized)):
            for (package, op_type), kernel in more.items():
                if (package, op_type) in table:
                    raise _duplicate(both.backend, package, op_type)
                table[package, op_type] = kernel
        return both

    def without_fusing(self) -> KernelRegistry:
        """Return a registry in which each kernel runs one node."""
        alone = self.for_backend(self.backend)
        for table in (alone.real, alone.quantized):
            for key, kernel in table.items():
                table[key] = Kernel(kernel.makes)
        return alone

    def with_fallback(self, other: KernelRegistry) -> KernelRegistry:
        """Return a registry with these kernels, which uses those of `other` where these decline.

        If both have a kernel for an op, this registry's decides what it fuses; a group that it then
        declines is built node by node.
        """
        return KernelRegistry(
            self.backend,
            self._on_integers,
            lambda: _with_fallback(self.real, other.real),
            lambda: _with_fallback(self.quantized, other.quantized),
        )

    def check(self, ops: OpRegistry) -> None:
        """Raise if a kernel is for an unknown op.

        Raises:
            UnsupportedOpError: One is; the error names the op.
        """
        for package, op_type in self:
            ops.find(package, op_type)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the ops that have kernels, as pairs of package and op."""
        return iter(self.real | self.quantized)


def _key(view: NodeView) -> Key:
    return view.package, view.op_type


def _with_fallback(own: dict[Key, Kernel], other: dict[Key, Kernel]) -> dict[Key, Kernel]:
    return other | {key: _first_of(kernel, other.get(key)) for key, kernel in own.items()}


def _first_of(kernel: Kernel, other: Kernel | None) -> Kernel:
    makes = kernel.makes if other is None else (*kernel.makes, *other.makes)
    return Kernel(makes, kernel.can_fuse, kernel.branch)


def _duplicate(backend: str, package: str, op_type: str) -> PluginError:
    return PluginError(
        f"duplicate {backend} kernel for {package}::{op_type}", code="PLUGIN_CONFLICT"
    )
