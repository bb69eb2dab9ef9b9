"""What a backend plugin implements, and what core hands it.

A backend is a class with a `name`, an `options_type` and five methods. Core owns everything around
it: handles, states, configs, priorities, queues, timeouts, profiling events, hooks, files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import msgspec

from dovetail.container import WeightStore
from dovetail.errors import BackendError
from dovetail.ir import Array, Graph, Node, Spec, Tensor
from dovetail.ops import Op, OpRegistry, OpSchema, bind_node, input_specs


class Options(msgspec.Struct, frozen=True):
    """Base of a backend's options: a Struct whose fields all have defaults."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do beyond running float graphs. Every flag that is off fails cleanly.

    Attributes:
        op_packages: Runs ops of packages that are not its own.
        caching: Makes context binaries and restores them (`image`, `restore`).
        cancel: Looks at `RunControl` between steps: signals and timeouts work.
        watch: Reports each step to `RunControl.watch`: detailed profiling and debug outputs.
        asynchronous: May be executed from a queue's thread.
        priority: Higher-priority executions overtake waiting ones.
        updates: Binds new data to UPDATEABLE tensors after finalize (`update`).
        memory_handles: Takes registered memory as inputs and outputs.
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
    """A node with its op, bound and checked: what a backend judges and prepares."""

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
    """What a backend says of a node: yes, or which rule it breaks and how to keep it.

    Attributes:
        ok: Whether the backend runs the node.
        rule: Short name of the rule broken, stable across versions.
        field: What breaks it: `in[1].dtype`, `param dilation`.
        found: What the node has there.
        allowed: What it may have.
        rewrite: The nearest legal form of the node, in words.
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


class Watch(Protocol):
    """Told of each step of a watched run."""

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        """A step ended.

        Args:
            nodes: Names of the nodes it ran; several where they are fused.
            microseconds: How long it took.
            outputs: Tensors it wrote, stored values; valid only until this returns.
        """


class RunControl:
    """What a run looks at: whether to stop, and who watches. One per execution.

    Args:
        watch: Told of each step, or None.
        timeout_us: Microseconds after which the run stops, or None.

    Attributes:
        watch: As given.
        limited: Whether there may be a reason to stop, for `check` to tell.
    """

    __slots__ = ("_deadline", "_stopped", "limited", "watch")

    def __init__(self, watch: Watch | None = None, timeout_us: int | None = None) -> None:
        self.watch = watch
        self._stopped = False
        self.limited = timeout_us is not None
        self._deadline = None if timeout_us is None else time.monotonic_ns() + timeout_us * 1000

    def stop(self) -> None:
        """Ask the run to end before its next step; from any thread."""
        self._stopped = self.limited = True

    def check(self) -> None:
        """End the run if it must: called between steps.

        Raises:
            BackendError: GRAPH_ERROR_ABORTED or GRAPH_ERROR_TIMED_OUT.
        """
        if self._stopped:
            raise BackendError("the execution was aborted", code="GRAPH_ERROR_ABORTED")
        if self._deadline is not None and time.monotonic_ns() > self._deadline:
            raise BackendError(
                "the execution took longer than its timeout",
                code="GRAPH_ERROR_TIMED_OUT",
                hint="allow more time, or profile the graph to see where the time goes",
            )


@dataclass(frozen=True, slots=True)
class Image:
    """A prepared graph as data: a JSON-able plan, and the prepacked weights it names."""

    plan: Mapping[str, Any]
    blobs: Mapping[str, Array] = field(default_factory=dict)


class Prepared(Protocol):
    """A finalized graph. `run` is never called twice at once on one object."""

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        """Execute the graph once.

        Args:
            inputs: By tensor name, stored values (dtype `storage`), C-contiguous, right shapes.
            outputs: Likewise; written in place.
            control: Looked at between steps.

        Raises:
            BackendError: A node failed, whatever it raised; `where` names it.
        """

    def image(self) -> Image:
        """Return the prepared graph as data; only with the capability `caching`."""

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Bind other data to UPDATEABLE tensors; only with the capability `updates`."""


class Backend(Protocol):
    """A backend plugin: what an entry point of `dovetail.backends` loads is such a class.

    It is made with the op registry of the session: `SomeBackend(ops)`.
    """

    name: ClassVar[str]
    options_type: ClassVar[type[Options]]

    def __init__(self, ops: OpRegistry) -> None: ...

    def capabilities(self) -> Capabilities:
        """Return what it can do; every flag defaults to False."""

    def validate(self, node: NodeView) -> Support:
        """Return whether it runs a node, and if not, why."""

    def prepare(self, graph: Graph, options: Any, weights: WeightStore) -> Prepared:
        """Create a graph ready to run; the graph is checked and every node validated.

        Args:
            graph: Not changed.
            options: An `options_type`.
            weights: Prepacked weights, shared by all graphs of a context.
        """

    def restore(self, image: Image, weights: WeightStore) -> Prepared:
        """Return what `image` came from, without preparing again; only with `caching`."""
