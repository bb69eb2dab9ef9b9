"""Base classes of backends, with defaults for all but `validate` and `prepare`.

A backend that keeps nothing per context is a `BackendBase` with these two methods and a
`PreparedBase` with `run`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dovetail.container import WeightStore
from dovetail.errors import BackendError
from dovetail.ir import Tensor
from dovetail.ops import CheckedGraph, NodeView, OpRegistry
from dovetail.runtime.contract import (
    SUPPORTED,
    BackendContext,
    Binding,
    Capabilities,
    Configs,
    Done,
    Fingerprint,
    FloatPrecision,
    Image,
    MemoryDescriptor,
    Platform,
    Prepared,
    PrepareRequest,
    Restored,
    RunControl,
    Support,
)

if TYPE_CHECKING:  # loaded by the backend `hetero` alone
    from dovetail.runtime.placement import Placement


class PreparedBase(ABC):
    """A `Prepared` with `run` alone: not updated, not stored, with nothing to release."""

    @property
    def placement(self) -> Placement | None:
        """Return None: one backend runs the whole graph."""
        return None

    @property
    def io_buffers(self) -> Mapping[str, int]:
        """Return none: it uses the application's memory; see `Prepared.io_buffers`."""
        return {}

    @property
    def memory_bytes(self) -> int:
        """Return 0: it is unknown."""
        return 0

    @property
    def needs_model(self) -> bool:
        """Return False; see `Prepared.needs_model`."""
        return False

    @abstractmethod
    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        """Execute the graph once; see `Prepared.run`."""

    def submit(
        self,
        inputs: Mapping[str, Binding],
        outputs: Mapping[str, Binding],
        control: RunControl,
        done: Done,
    ) -> None:
        """Execute the graph to its end; see `Prepared.submit`."""
        try:
            self.run(inputs, outputs, control)
        except BaseException as error:  # noqa: BLE001 - travels to who waits
            done(error)
        else:
            done(None)

    def unbind(self) -> None:  # noqa: B027 - a default
        """Keep nothing of earlier runs; see `Prepared.unbind`."""

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Raise: a backend with the capability `updates` overrides this.

        Raises:
            BackendError: Always.
        """
        raise unsupported("update tensors after finalize", "TENSOR_ERROR_UNSUPPORTED_FEATURE")

    def section(self, names: Collection[str]) -> Image:
        """Raise: a backend with the capabilities `updates` and `caching` overrides this.

        Raises:
            BackendError: Always.
        """
        raise unsupported("write sections", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")

    def apply(self, section: Image) -> None:
        """Raise: a backend with the capabilities `updates` and `caching` overrides this.

        Raises:
            BackendError: Always.
        """
        raise unsupported("apply sections", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")

    def close(self) -> None:  # noqa: B027 - a default
        """Release nothing."""


class ContextBase:
    """A `BackendContext` that asks its backend to prepare graphs.

    Args:
        backend: The backend.
        device: Settings of the device.
        config: Settings of the context.
        weights: Forms of constants, shared by the graphs of the context.
    """

    def __init__(
        self, backend: BackendBase, device: Any, config: Any, weights: WeightStore
    ) -> None:
        self.backend = backend
        self.device = device
        self.config = config
        self.weights = weights

    def prepare(self, graph: CheckedGraph, request: PrepareRequest) -> Prepared:
        """Prepare a graph; see `BackendContext.prepare`."""
        return self.backend.prepare(graph, request, self)

    def image(self, graphs: Mapping[str, Prepared]) -> Image:
        """Raise: a backend with the capability `caching` overrides this.

        Raises:
            BackendError: Always.
        """
        raise unsupported("create context binaries", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        """Raise: a backend with the capability `caching` overrides this.

        Raises:
            BackendError: Always.
        """
        raise unsupported("restore context binaries", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")

    def register_memory(self, descriptor: MemoryDescriptor) -> Binding:
        """Return the registered array, which is in host memory.

        Raises:
            BackendError: The memory is of another kind.
        """
        if descriptor.array is None:
            raise unsupported("use memory outside the host's", "MEM_ERROR_NOT_SUPPORTED")
        return descriptor.array

    def close(self) -> None:
        """Release nothing."""


class BackendBase(ABC):
    """A `Backend` with nothing but `name`, `prepare`, and perhaps `validate`.

    Args:
        ops: The op registry of the handle.
        options: An instance of `configs.backend`.
    """

    name: ClassVar[str]
    configs: ClassVar[Configs] = Configs()
    # Whether it computes on this machine's own hardware, for use: no emulator, recorder or part of
    # another. `auto` has such backends as candidates without naming them. An instance may set it to
    # False, as one on a device that another backend computes on faster.
    is_native: bool = False

    def __init__(self, ops: OpRegistry, options: Any) -> None:
        self.ops = ops
        self.options = options

    @classmethod
    def type_table(cls, arch: str | None = None) -> Mapping[str, tuple[str, ...]]:
        """Return the combinations of types of each op, in words; empty if there is no such table.

        `dovetail plugins show NAME --ops` lists them.

        Args:
            arch: Architecture whose combinations are returned; None for those of all.

        Raises:
            ConfigError: The backend does not have this architecture.
        """
        return {}

    @abstractmethod
    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Prepared:
        """Prepare a graph for execution; see `BackendContext.prepare`."""

    def capabilities(self) -> Capabilities:
        """Return no capabilities."""
        return Capabilities()

    def platform(self) -> Platform:
        """Return the host as the only device."""
        return Platform()

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        """Support every node; see `Backend.validate`."""
        return SUPPORTED

    def open_context(self, device: Any, config: Any, weights: WeightStore) -> BackendContext:
        """Return a context that keeps nothing of its own."""
        return ContextBase(self, device, config, weights)

    def float_precision(self, config: Any) -> FloatPrecision:
        """Return the narrowest type to which float32 values of a graph may be rounded.

        Args:
            config: Settings of the graph; an instance of `configs.graph`.
        """
        return FloatPrecision.FLOAT32

    def fingerprint(self, device: Any) -> Fingerprint:
        """Return the name of the backend alone."""
        return Fingerprint({"backend": self.name})

    def close(self) -> None:  # noqa: B027 - a default
        """Release nothing."""


def unsupported(what: str, code: str) -> BackendError:
    """Return the error of a backend that lacks a capability.

    Args:
        what: What it does not do.
        code: Code of the error.
    """
    return BackendError(f"this backend does not {what}", code=code)
