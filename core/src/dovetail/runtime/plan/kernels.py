"""Kernels: functions from a `KernelCall` to a `Step`, registered by package and op."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.errors import PluginError
from dovetail.ops import NodeView, OpRegistry
from dovetail.runtime.plan.kernel_call import KernelCall
from dovetail.runtime.plan.values import Step

Make = Callable[[KernelCall], Step | None]
CanFuse = Callable[[Sequence[NodeView], NodeView], bool]


class Branch(enum.Enum):
    """A node next to a chain that may run with it, if one node alone reads both results.

    GATE: it reads the output of the chain's last node, and nothing else. SIBLING: it has the op and
    the first input of the last node; kernels that fuse siblings fuse no other nodes.
    """

    GATE = enum.auto()
    SIBLING = enum.auto()


@dataclass(frozen=True, slots=True)
class Kernel:
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
        return None


class KernelRegistry:
    """The kernels of one backend.

    Args:
        backend: Name of the backend, as in the entry points `BACKEND:PACKAGE` of
            `dovetail.kernels`.
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
            PluginError: The op already has a kernel.
        """

        def register(make: Make) -> Make:
            if (package, op_type) in self._kernels:
                raise _duplicate(self.backend, package, op_type)
            self._kernels[package, op_type] = Kernel((make,), can_fuse, branch)
            return make

        return register

    def find(self, package: str, op_type: str) -> Kernel | None:
        """Return an op's kernel, or None."""
        return self._kernels.get((package, op_type))

    def joined(self, other: KernelRegistry) -> KernelRegistry:
        """Return a registry with the kernels of both.

        Raises:
            PluginError: Both have a kernel for the same op.
        """
        both = KernelRegistry(self.backend)
        for registry in (self, other):
            for (package, op_type), kernel in registry._kernels.items():
                if (package, op_type) in both._kernels:
                    raise _duplicate(both.backend, package, op_type)
                both._kernels[package, op_type] = kernel
        return both

    def with_fallback(self, other: KernelRegistry) -> KernelRegistry:
        """Return a registry with these kernels, which uses those of `other` where these decline.

        If both have a kernel for an op, this registry's decides what it fuses; a group that it then
        declines is built node by node.
        """
        both = KernelRegistry(self.backend)
        both._kernels = other._kernels | {
            key: _first_of(kernel, other._kernels.get(key)) for key, kernel in self._kernels.items()
        }
        return both

    def check(self, ops: OpRegistry) -> None:
        """Raise if a kernel is for an unknown op.

        Raises:
            UnsupportedOpError: One is; the error names the op.
        """
        for package, op_type in self._kernels:
            ops.find(package, op_type)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._kernels)


def _first_of(kernel: Kernel, other: Kernel | None) -> Kernel:
    makes = kernel.makes if other is None else (*kernel.makes, *other.makes)
    return Kernel(makes, kernel.can_fuse, kernel.branch)


def _duplicate(backend: str, package: str, op_type: str) -> PluginError:
    return PluginError(
        f"duplicate {backend} kernel for {package}::{op_type}", code="PLUGIN_CONFLICT"
    )
