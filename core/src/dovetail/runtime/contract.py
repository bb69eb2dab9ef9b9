"""Contract of backend plugins.

A backend is a class made once for a runtime handle, `SomeBackend(ops, options)`. It opens contexts,
which prepare graphs, and prepared graphs run. Core provides everything else: handles, states,
priorities, queues, timeouts, profiling events, hooks, files. `dovetail.runtime.base` has base
classes with defaults for all but `validate` and `prepare`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec

from dovetail.container import ImageContent, WeightStore, pack_image, unpack_image
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Array, DataFormat, DType, EncodingKind, Shape, Tensor
from dovetail.ops import CheckedGraph, NodeView, OpRegistry
from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import Counter, EventType, ProfileEvent, Recorder
from dovetail.runtime.placement.report import Placement


class Options(msgspec.Struct, frozen=True):
    """Base of a backend's options: a Struct whose fields all have defaults."""


@dataclass(frozen=True, slots=True)
class Configs:
    """Types of a backend's four configs: Structs whose fields all have defaults.

    Attributes:
        backend: Its options.
        device: Settings of a device.
        context: Settings of a context.
        graph: Settings of a graph; those of a config file are matched by `graph_names`.
    """

    backend: type[Options] = Options
    device: type[DeviceConfig] = DeviceConfig
    context: type[ContextConfig] = ContextConfig
    graph: type[GraphConfig] = GraphConfig


# Those with one integer offset for each scale, which `simulate` runs for any op.
_LINEAR_ENCODINGS = frozenset(kind for kind in EncodingKind if kind < EncodingKind.VECTOR)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a backend beyond running float graphs. Using a missing one is an error.

    Attributes:
        op_packages: Runs ops of other packages.
        opaque_ops: Accepts nodes whose op package is not installed (`NodeView.is_opaque`).
        caching: Creates and restores context binaries (`image`, `restore`).
        cancel: Checks `RunControl` between steps, so that signals and timeouts work.
        watch: Reports each step to the control (`RunControl.step_finished`), for detailed profiling
            and debug outputs.
        asynchronous: Supports execution in a queue's thread.
        overlap: Several executions of a graph may be in progress (`Prepared.submit`).
        priority: Higher-priority executions overtake waiting ones.
        updates: Binds new data to UPDATEABLE tensors after finalize (`update`).
        memory_handles: Supports registered memory as inputs and outputs.
        custom_memory: Registers memory that is not the host's, too.
        dynamic_dimensions: Runs with sizes below the maximum on dynamic axes (`Tensor.dynamic`).
        data_formats: Formats of tensors.
        encodings: Kinds of encodings; `validate` may reject some.
        profile_levels: Numbers of its own profiling levels, from `ProfileLevel.BACKEND`.
    """

    op_packages: bool = False
    opaque_ops: bool = False
    caching: bool = False
    cancel: bool = False
    watch: bool = False
    asynchronous: bool = False
    overlap: bool = False
    priority: bool = False
    updates: bool = False
    memory_handles: bool = False
    custom_memory: bool = False
    dynamic_dimensions: bool = False
    data_formats: frozenset[DataFormat] = frozenset({DataFormat.DENSE})
    encodings: frozenset[EncodingKind] = _LINEAR_ENCODINGS
    profile_levels: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device that a backend can use.

    Attributes:
        name: Its name.
        cores: Number of its cores.
        soc: Name of the system on chip that it is part of or represents; empty if none.
    """

    name: str
    cores: int = 1
    soc: str = ""


@dataclass(frozen=True, slots=True)
class Platform:
    """The devices and libraries of a backend, as `doctor` shows them.

    Attributes:
        devices: Its devices.
        version: Version of the backend.
        notes: Lines on its libraries and their state.
    """

    devices: tuple[DeviceInfo, ...] = (DeviceInfo("host"),)
    version: str = ""
    notes: tuple[str, ...] = ()


class Fingerprint(msgspec.Struct, frozen=True):
    """All that prepared graphs depend on besides the model.

    Attributes:
        facts: Values by name: library, version, instruction set, threads, options, op packages and
            kernel dists, format of the plan.
    """

    facts: dict[str, str] = {}

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """Return the names of the facts that differ, sorted."""
        names = self.facts.keys() | other.facts.keys()
        return tuple(sorted(n for n in names if self.facts.get(n) != other.facts.get(n)))


@dataclass(frozen=True, slots=True)
class Support:
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


@runtime_checkable
class Watch(Protocol):
    """Receives each step of a watched run."""

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        """Receive a step that has ended.

        Args:
            nodes: Names of the nodes that it ran; several if they are fused.
            microseconds: Its duration.
            outputs: Stored values of the tensors that it wrote; valid only until this method
                returns.
        """


class RunControl:
    """Control of an execution: whether it must stop, and who watches and measures it.

    Args:
        watch: Receives each step, or None.
        timeout_us: Microseconds after which the run stops, or None.
        record: Receives measurements, or None.

    Attributes:
        watch: The watch, or None.
        record: The recorder of a run with a profile, or None. A backend calls it with events of its
            own; they become parts of the run's event.
        limited: Whether the run may have to stop; if not, `check` need not be called.
    """

    __slots__ = ("_deadline", "_stopped", "limited", "record", "watch")

    def __init__(
        self,
        watch: Watch | None = None,
        timeout_us: int | None = None,
        record: Recorder | None = None,
    ) -> None:
        self.watch = watch
        self.record = record
        self._stopped = False
        self.limited = timeout_us is not None
        self._deadline = None if timeout_us is None else time.monotonic_ns() + timeout_us * 1000

    def stop(self) -> None:
        """Request the run to end before its next step; callable from any thread."""
        self._stopped = self.limited = True

    @property
    def reports_steps(self) -> bool:
        """True if each step is to be reported to `step_finished`."""
        return self.watch is not None or (self.record is not None and self.record.has_nodes)

    def step_finished(
        self,
        nodes: tuple[str, ...],
        start_us: float,
        microseconds: float,
        outputs: Callable[[], Mapping[str, Array]],
        counters: tuple[Counter, ...] = (),
    ) -> None:
        """Report a step to the watch and the profile, whichever the run has.

        Args:
            nodes: Names of the nodes that it ran; several if they are fused.
            start_us: Time of its start on the clock of `time.perf_counter`.
            microseconds: Its duration.
            outputs: Returns the stored values of the tensors that it wrote; called only for a
                watch.
            counters: Other quantities, for a profile.
        """
        if self.record is not None and self.record.has_nodes:
            name = " + ".join(nodes)
            event = ProfileEvent(
                EventType.NODE, name, microseconds, start_us=start_us, counters=counters
            )
            self.record(event)
        if self.watch is not None:
            self.watch.step_finished(nodes, microseconds, outputs())

    def check(self) -> None:
        """Raise if the run must end; called between steps.

        Raises:
            BackendError: GRAPH_ERROR_ABORTED or GRAPH_ERROR_TIMED_OUT.
        """
        if self._stopped:
            raise BackendError("the execution was aborted", code="GRAPH_ERROR_ABORTED")
        if self._deadline is not None and time.monotonic_ns() > self._deadline:
            raise BackendError(
                "the execution exceeded its timeout",
                code="GRAPH_ERROR_TIMED_OUT",
                hint="allow more time, or profile the graph to see where the time goes",
            )


@dataclass(frozen=True, slots=True)
class PrepareRequest:
    """Settings for the preparation of a graph; its observed tensors are in the `CheckedGraph`.

    Attributes:
        config: Settings of the graph; an instance of `Configs.graph`.
        control: Checked between parts of the work, so that it can be cancelled.
        record: Receives measurements of the preparation; None without a profile.
    """

    config: GraphConfig = GraphConfig()  # noqa: RUF009 - immutable
    control: RunControl = field(default_factory=RunControl)
    record: Recorder | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """Prepared graphs of a context as data.

    Attributes:
        fingerprint: What they depend on.
        graphs: The plan of each graph, of JSON types, by name. The backend alone reads it.
        blobs: Their prepacked weights by key.
        opaque: The graphs as one blob, of a backend that cannot describe them.
    """

    fingerprint: Fingerprint
    graphs: Mapping[str, Any]
    blobs: Mapping[str, Array] = field(default_factory=dict)
    opaque: bytes = b""

    def to_bytes(self) -> bytes:
        """Return it in the format of containers."""
        facts = self.fingerprint.facts
        return pack_image(ImageContent(facts, self.graphs, self.blobs, self.opaque))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, where: str = "image") -> Image:
        """Return the image in these bytes, all of which are checked.

        Args:
            data: From `to_bytes`.
            where: Name of the bytes, for errors.

        Raises:
            ContainerError: They are no image, are cut short or altered, or have a newer format.
        """
        found = unpack_image(data, where)
        return cls(Fingerprint(dict(found.fingerprint)), found.graphs, found.blobs, found.opaque)

    def require(self, fingerprint: Fingerprint) -> None:
        """Raise unless the graphs can run where this is the fingerprint.

        Raises:
            ContainerError: It differs; the message names the facts that do.
        """
        if names := self.fingerprint.differences(fingerprint):
            facts = (
                f"{name} is {fingerprint.facts.get(name, 'unknown')}, the image's is "
                f"{self.fingerprint.facts.get(name, 'unknown')}"
                for name in names
            )
            raise ContainerError(
                f"the image was created elsewhere: {'; '.join(facts)}",
                code="CONTAINER_INCOMPATIBLE",
                hint="create the image again with this backend, its options and this machine",
            )


@dataclass(frozen=True, slots=True)
class MemoryDescriptor:
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

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Use other data or encodings of UPDATEABLE tensors; only with the capability `updates`.

        Args:
            tensors: Tensors of the graph, already changed; types and shapes are as they were.
        """

    def section(self, base: Prepared | None) -> Image:
        """Return the updateable tensors as an image; only with `updates` and `caching`.

        Args:
            base: Leave out what is as in this graph, prepared from the same model.

        Raises:
            BackendError: It has no sections (CONTEXT_ERROR_UNSUPPORTED_FEATURE).
        """

    def apply(self, section: Image) -> None:
        """Use the updateable tensors of a section; only with `updates` and `caching`."""

    def close(self) -> None:
        """Release what it holds; called once, while nothing runs."""


@dataclass(frozen=True, slots=True)
class Restored:
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
