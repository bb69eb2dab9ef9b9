"""Contract of backend plugins.

A backend is a class made once for a runtime handle, `SomeBackend(ops, options)`. It opens contexts,
which prepare graphs, and prepared graphs run. Core provides everything else: handles, states,
priorities, queues, timeouts, profiling events, hooks, files. `dovetail.runtime.base` has base
classes with defaults for all but `validate` and `prepare`.

Plugins import the names of the contract from here, in whichever module they are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from dovetail.container import WeightStore
from dovetail.ir import Array, DType, Shape, Tensor
from dovetail.ops import CheckedGraph, NodeView, OpRegistry
from dovetail.runtime.capabilities import (
    Capabilities,
    Configs,
    DeviceInfo,
    FloatPrecision,
    Options,
    Platform,
)
from dovetail.runtime.config import GraphConfig
from dovetail.runtime.control import RunControl, Watch
from dovetail.runtime.image import Fingerprint, Image
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import Recorder

if TYPE_CHECKING:  # loaded by the backend `hetero` alone
    from dovetail.runtime.placement import Placement

__all__ = [
    "SUPPORTED",
    "Backend",
    "BackendContext",
    "Binding",
    "Capabilities",
    "Configs",
    "DeviceInfo",
    "Done",
    "Fingerprint",
    "FloatPrecision",
    "Image",
    "MemoryDescriptor",
    "Options",
    "Platform",
    "PrepareRequest",
    "Prepared",
    "Restored",
    "RunControl",
    "Support",
    "Token",
    "Watch",
]


class Support(msgspec.Struct, frozen=True):
    """A backend's verdict on a node: supported, or the rule it breaks and how to meet it.

    Attributes:
        ok: Whether the backend runs the node.
        rule: Short name of the rule broken, stable across versions.
        field: The part that breaks it, such as `in[1].dtype` or `param dilation`.
        found: The node's value.
        allowed: The allowed values.
        rewrite: The nearest supported form of the node, in words.
    """

    ok: bool = True
    rule: str = ""
    field: str = ""
    found: str = ""
    allowed: tuple[str, ...] = ()
    rewrite: str = ""

    def __str__(self) -> str:
        if self.ok:
            return "supported"
        allowed = f"; allowed: {', '.join(self.allowed)}" if self.allowed else ""
        hint = f"; {self.rewrite}" if self.rewrite else ""
        return f"{self.rule}: {self.field} is {self.found}{allowed}{hint}"


SUPPORTED = Support()


class PrepareRequest(msgspec.Struct, frozen=True):
    """Settings for the preparation of a graph; its observed tensors are in the `CheckedGraph`.

    Attributes:
        config: Settings of the graph; an instance of `Configs.graph`.
        control: Checked between parts of the work, so that it can be cancelled.
        record: Receives measurements of the preparation; None without a profile.
    """

    config: GraphConfig = GraphConfig()
    control: RunControl = msgspec.field(default_factory=RunControl)
    record: Recorder | None = None


class MemoryDescriptor(msgspec.Struct, frozen=True):
    """Memory that an application registers.

    Attributes:
        dtype: Type of its elements.
        shape: Its shape.
        array: The bytes, if they are in host memory: C-contiguous stored values.
        custom: Data by which a backend finds memory of another kind.
    """

    dtype: DType
    shape: Shape
    array: Array | None = None
    custom: Mapping[str, Any] | None = None


class Token(Protocol):
    """Registered memory that is not in host memory, of the backend that returned it."""

    def release(self) -> None:
        """Release it; called once, when the application deregisters it or the context ends."""


Binding = Any  # an array, or a `Token`
Done = Callable[[BaseException | None], None]


class Prepared(Protocol):
    """A graph ready to run."""

    @property
    def placement(self) -> Placement | None:
        """The backends of its parts; None if one backend runs the whole graph."""

    @property
    def io_buffers(self) -> Mapping[str, int]:
        """Sizes in bytes of the buffers of inputs and outputs that each run copies, by name.

        A run copies what its device cannot access. Others are the application's memory itself.
        """

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes besides the graph: packed weights and buffers; 0 if unknown."""

    @property
    def needs_model(self) -> bool:
        """True if it can only be restored together with the graph that it was prepared from."""

    def run(
        self,
        inputs: Mapping[str, Binding],
        outputs: Mapping[str, Binding],
        control: RunControl,
    ) -> None:
        """Execute the graph once; never called concurrently with itself on one object.

        Args:
            inputs: By tensor name: C-contiguous stored values with the right dtype (`storage`) and
                shape, or a token of registered memory.
            outputs: The same, written in place.
            control: Checked between steps.

        Raises:
            BackendError: A node failed with any exception; `where` names the node.
        """

    def submit(
        self,
        inputs: Mapping[str, Binding],
        outputs: Mapping[str, Binding],
        control: RunControl,
        done: Done,
    ) -> None:
        """Begin an execution; `done` is called once at its end, with the error or None.

        With the capability `overlap`, it may return before the end; it and `run` may be called
        again meanwhile. It is never called concurrently.

        Args:
            inputs: As for `run`; they stay unchanged until the end.
            outputs: As for `run`.
            control: As for `run`.
            done: Called in any thread.
        """

    def unbind(self) -> None:
        """Drop references to bindings of earlier runs: the application closes their memory.

        Never called concurrently with `run`. Submitted executions may be in progress; they drop
        theirs at their end.
        """

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Use other data or encodings of UPDATEABLE tensors; only with the capability `updates`.

        Args:
            tensors: Tensors of the graph, already changed; types and shapes are as they were.
        """

    def section(self, names: Collection[str]) -> Image:
        """Return updateable tensors as an image; only with `updates` and `caching`.

        Args:
            names: Names of the tensors.

        Raises:
            BackendError: It has no sections (CONTEXT_ERROR_UNSUPPORTED_FEATURE).
        """

    def apply(self, section: Image) -> None:
        """Use the updateable tensors of a section; only with `updates` and `caching`.

        Nothing changes if an error is raised.
        """

    def close(self) -> None:
        """Release what it holds; called once, while nothing runs."""


class Restored(msgspec.Struct, frozen=True):
    """A graph of an image, ready to run, with its inputs and outputs."""

    interface: Interface
    prepared: Prepared


class BackendContext(Protocol):
    """A backend's part of a context: a device, memory, prepared graphs."""

    def prepare(self, graph: CheckedGraph, request: PrepareRequest) -> Prepared:
        """Prepare a graph for execution; every node has been validated.

        Args:
            graph: Not changed.
            request: How to prepare it.
        """

    def image(self, graphs: Mapping[str, Prepared]) -> Image:
        """Return prepared graphs of this context as data; only with the capability `caching`."""

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        """Return the graphs of an image without preparing them again; only with `caching`.

        Args:
            image: From `image`, perhaps of another process; nothing in it can be trusted.
            graph: Returns the graph of a name, if the model is available.
            request: Returns how the graph of a name is to be prepared.

        Raises:
            ContainerError: The image is damaged, of another graph, or of another fingerprint.
            BackendError: Graphs cannot be restored without the model
                (CONTEXT_ERROR_UNSUPPORTED_FEATURE).
        """

    def register_memory(self, descriptor: MemoryDescriptor) -> Binding:
        """Return what `run` receives for registered memory; only with `memory_handles`."""

    def close(self) -> None:
        """Release what it holds; called once, after its prepared graphs have been closed."""


class Backend(Protocol):
    """A backend plugin, a class that an entry point of `dovetail.backends` loads.

    It is created for each runtime handle, with the op registry and its options:
    `SomeBackend(ops, options)`.
    """

    name: ClassVar[str]
    configs: ClassVar[Configs]

    def __init__(self, ops: OpRegistry, options: Any) -> None: ...

    def capabilities(self) -> Capabilities:
        """Return its capabilities with these options."""

    def platform(self) -> Platform:
        """Return its devices and libraries."""

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        """Return whether it supports a node, with the reason if not.

        Args:
            node: The node.
            device: Settings of the device; an instance of `configs.device`.
            config: Settings of the graph; an instance of `configs.graph`.
        """

    def open_context(self, device: Any, config: Any, weights: WeightStore) -> BackendContext:
        """Return what it keeps for a new context.

        Args:
            device: Settings of the device.
            config: Settings of the context; an instance of `configs.context`.
            weights: Forms of constants, shared by all graphs of the context.
        """

    def fingerprint(self, device: Any) -> Fingerprint:
        """Return all that prepared graphs depend on besides the model."""

    def close(self) -> None:
        """Release what it holds; called once, after its contexts have been closed."""
