"""Contract of backend plugins.

A backend is a class with a `name`, an `options_type` and five methods. Core provides everything
else: handles, states, configs, priorities, queues, timeouts, profiling events, hooks, files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec

from dovetail.container import WeightStore
from dovetail.errors import BackendError
from dovetail.ir import Array, Graph, Node, Spec, Tensor
from dovetail.ops import Op, OpRegistry, OpSchema, bind_node, input_specs


class Options(msgspec.Struct, frozen=True):
    """Base of a backend's options: a Struct whose fields all have defaults."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a backend beyond running float graphs. Using a missing one is an error.

    Attributes:
        op_packages: Runs ops of other packages.
        caching: Creates and restores context binaries (`image`, `restore`).
        cancel: Checks `RunControl` between steps, so that signals and timeouts work.
        watch: Reports each step to `RunControl.watch`, for detailed profiling and debug outputs.
        asynchronous: Supports execution in a queue's thread.
        priority: Higher-priority executions overtake waiting ones.
        updates: Binds new data to UPDATEABLE tensors after finalize (`update`).
        memory_handles: Supports registered memory as inputs and outputs.
    """

    op_packages: bool = False
    caching: bool = False
    cancel: bool = False
    watch: bool = False
    asynchronous: bool = False
    priority: bool = False
    updates: bool = False
    memory_handles: bool = False


@dataclass(frozen=True, slots=True)
class NodeView:
    """A checked node with its bound op, for validation and preparation."""

    node: Node
    schema: OpSchema
    op: Op
    ins: tuple[Spec | None, ...]
    outs: tuple[Spec, ...]

    @classmethod
    def of(cls, node: Node, ops: OpRegistry) -> NodeView:
        """Return the view of a node that has no faults.

        Raises:
            UnsupportedOpError: The op is not in the registry.
        """
        schema = ops.find(node.package, node.op_type)
        outs = tuple(t.spec for t in node.outputs)
        return cls(node, schema, bind_node(schema, node), tuple(input_specs(node)), outs)

    @property
    def package(self) -> str:
        """Name of the op package."""
        return self.node.package

    @property
    def op_type(self) -> str:
        """Name of the op."""
        return self.node.op_type


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
    """Control of an execution: whether it must stop, and who watches it.

    Args:
        watch: Receives each step, or None.
        timeout_us: Microseconds after which the run stops, or None.

    Attributes:
        watch: The watch, or None.
        limited: Whether the run may have to stop; if not, `check` need not be called.
    """

    __slots__ = ("_deadline", "_stopped", "limited", "watch")

    def __init__(self, watch: Watch | None = None, timeout_us: int | None = None) -> None:
        self.watch = watch
        self._stopped = False
        self.limited = timeout_us is not None
        self._deadline = None if timeout_us is None else time.monotonic_ns() + timeout_us * 1000

    def stop(self) -> None:
        """Request the run to end before its next step; callable from any thread."""
        self._stopped = self.limited = True

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
class Image:
    """A prepared graph as data: a plan of JSON types, and its prepacked weights."""

    plan: Mapping[str, Any]
    blobs: Mapping[str, Array] = field(default_factory=dict)


class Prepared(Protocol):
    """A finalized graph. `run` is never called concurrently on one object."""

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        """Execute the graph once.

        Args:
            inputs: Stored values by tensor name: C-contiguous, with the right dtype (`storage`) and
                shape.
            outputs: Arrays of the same form, written in place.
            control: Checked between steps.

        Raises:
            BackendError: A node failed with any exception; `where` names the node.
        """

    def image(self) -> Image:
        """Return the prepared graph as data; only with the capability `caching`."""

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Replace the data of UPDATEABLE tensors; only with the capability `updates`."""


class Backend(Protocol):
    """A backend plugin, a class that an entry point of `dovetail.backends` loads.

    It is created with the op registry of the session: `SomeBackend(ops)`.
    """

    name: ClassVar[str]
    options_type: ClassVar[type[Options]]

    def __init__(self, ops: OpRegistry) -> None: ...

    def capabilities(self) -> Capabilities:
        """Return its capabilities."""

    def validate(self, node: NodeView) -> Support:
        """Return whether it supports a node, with the reason if not."""

    def prepare(self, graph: Graph, options: Any, weights: WeightStore) -> Prepared:
        """Prepare a graph for execution; the graph is checked and every node validated.

        Args:
            graph: Not changed.
            options: An instance of `options_type`.
            weights: Prepacked weights, shared by all graphs of a context.
        """

    def restore(self, image: Image, weights: WeightStore) -> Prepared:
        """Return the prepared graph of an image without preparing it again; only with `caching`."""
