"""Checked graphs: each node is bound to its op and inferred once, for all who use the graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import msgspec

from dovetail.ir import Graph, Node, Spec, Tensor, TensorKind
from dovetail.ops.op import Op
from dovetail.ops.schema import OpSchema


class NodeView(msgspec.Struct, frozen=True):
    """A node that matches its op, for validation and preparation.

    Attributes:
        node: The node.
        schema: Schema of its op; None for an opaque node, whose op package is not installed.
        op: The op with its params; None for an opaque node.
        ins: Specs of the inputs; None for omitted ones.
        outs: Specs of the outputs.
    """

    node: Node
    schema: OpSchema | None
    op: Any  # its class is the registered one
    ins: tuple[Spec | None, ...]
    outs: tuple[Spec, ...]

    @property
    def package(self) -> str:
        """Name of the op package."""
        return self.node.package

    @property
    def op_type(self) -> str:
        """Name of the op."""
        return self.node.op_type

    @property
    def is_opaque(self) -> bool:
        """True if nothing is known of the op but what the graph declares."""
        return self.schema is None

    @property
    def is_quantized(self) -> bool:
        """True if a tensor that it reads or writes is fixed-point with an encoding."""
        return any(
            spec is not None and spec.dtype.is_fixed_point and spec.encoding is not None
            for spec in (*self.ins, *self.outs)
        )

    def spec(self, index: int) -> Spec:
        """Return the spec of an input that is not omitted."""
        spec = self.ins[index]
        if spec is None:
            raise AssertionError(f"{self.node.where} lacks in[{index}]")
        return spec

    def named_specs(self) -> Iterator[tuple[str, Spec]]:
        """Yield inputs that are not omitted and outputs with their names, such as `in[0]`."""
        for kind, specs in (("in", self.ins), ("out", self.outs)):
            for i, spec in enumerate(specs):
                if spec is not None:
                    yield f"{kind}[{i}]", spec

    @property
    def work(self) -> int:
        """Multiply-accumulates of one execution, 0 for an opaque node; see `Op.work`."""
        return 0 if self.schema is None else self.schema.work(self.op, self.ins, self.outs)

    @property
    def definition(self) -> tuple[OpSchema, Op]:
        """The schema and the op of a node that is not opaque."""
        if self.schema is None or self.op is None:
            raise AssertionError(f"{self.node.where} is opaque: no op package defines its op")
        return self.schema, self.op


class Observed(msgspec.Struct, frozen=True):
    """Tensors of a graph that can be read after each step, besides its outputs.

    Attributes:
        names: Names of the tensors.
        everything: Whether all tensors are observed.
    """

    names: frozenset[str] = frozenset()
    everything: bool = False

    def __contains__(self, tensor: Tensor) -> bool:
        return self.everything or tensor.name in self.names

    def __bool__(self) -> bool:
        return self.everything or bool(self.names)


NOTHING = Observed()
EVERYTHING = Observed(everything=True)


class CheckedGraph(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A graph without faults, or a part of one. Its nodes must not change afterwards.

    Attributes:
        name: Its name.
        graph: The graph that the tensors and nodes are in.
        nodes: The nodes, in topological order.
        inputs: Tensors that are written before it runs.
        outputs: Tensors that are read after it has run.
        observed: Other tensors that can be read when a step has written them.
    """

    name: str
    graph: Graph
    nodes: tuple[NodeView, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    observed: Observed = NOTHING

    @classmethod
    def of(
        cls,
        graph: Graph,
        views: Mapping[Node, NodeView],
        observed: Observed = NOTHING,
        outputs: Iterable[Tensor] = (),
    ) -> Self:
        """Return a whole graph.

        Args:
            graph: Without structural faults.
            views: A view of every node.
            observed: As the attribute.
            outputs: Tensors that are read after it has run, besides the graph's outputs.
        """
        nodes = tuple(views[node] for node in graph.nodes)
        read = tuple(dict.fromkeys((*graph.outputs, *outputs)))
        return cls(graph.name, graph, nodes, graph.inputs, read, observed)

    def part(
        self,
        name: str,
        nodes: Collection[Node],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
    ) -> CheckedGraph:
        """Return a part, which needs no new check.

        Args:
            name: Its name.
            nodes: Its nodes; a path between two of them has no other nodes.
            inputs: All tensors without data that they read from elsewhere.
            outputs: All tensors that they write and that are read elsewhere.
        """
        chosen = tuple(view for view in self.nodes if view.node in nodes)
        return CheckedGraph(name, self.graph, chosen, tuple(inputs), tuple(outputs), self.observed)

    @cached_property
    def _views(self) -> Mapping[Node, NodeView]:
        return {view.node: view for view in self.nodes}

    @cached_property
    def _kept(self) -> frozenset[Tensor]:
        return frozenset(self.outputs)

    @cached_property
    def _is_part(self) -> bool:
        return len(self.nodes) != len(self.graph.nodes)

    @property
    def where(self) -> str:
        """Its name for errors."""
        return f"graph '{self.name}'"

    @property
    def packages(self) -> frozenset[str]:
        """Names of the op packages of its nodes."""
        return frozenset(view.package for view in self.nodes)

    def view(self, node: Node) -> NodeView:
        """Return the view of a node."""
        return self._views[node]

    def producer(self, tensor: Tensor) -> Node | None:
        """Return the node that writes a tensor, or None."""
        node = self.graph.producer(tensor)
        return node if node in self._views else None

    def consumers(self, tensor: Tensor) -> tuple[Node, ...]:
        """Return the nodes that read a tensor, each once."""
        found = self.graph.consumers(tensor)
        return tuple(n for n in found if n in self._views) if self._is_part else found

    def is_output(self, tensor: Tensor) -> bool:
        """Return whether a tensor is read after the graph has run."""
        return tensor in self._kept

    def is_visible(self, tensor: Tensor) -> bool:
        """Return whether a tensor is an output or observed."""
        return tensor in self._kept or tensor in self.observed

    def is_internal(self, tensor: Tensor) -> bool:
        """Return whether nodes of the graph alone write and read a tensor."""
        return tensor.kind is TensorKind.NATIVE and not self.is_visible(tensor)

    def only_reader(self, tensor: Tensor) -> Node | None:
        """Return the only node that reads an internal tensor, None if anything else does."""
        readers = self.consumers(tensor) if self.is_internal(tensor) else ()
        return readers[0] if len(readers) == 1 else None

    def tensors(self) -> Iterable[Tensor]:
        """Return the tensors that its nodes read and write, each once, without params."""
        used = (t for v in self.nodes for t in (*v.node.inputs, *v.node.outputs) if t is not None)
        return dict.fromkeys((*self.inputs, *used))
