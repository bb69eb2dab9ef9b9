"""Rewriting of checked graphs for a plan: the graph of the user stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec.structs import replace

from dovetail.ir import Blob, DType, Graph, Node, Tensor, TensorKind
from dovetail.ops import CheckedGraph, NodeView, OpSchema, matched_node


class Rewriting:
    """A graph while it is made from another one.

    Args:
        old: The other graph. Its inputs and outputs are those of the new one.
        schema: The op of casts.

    Attributes:
        replaced: Tensors of the new graph with the values of tensors of the old one.
    """

    def __init__(self, old: CheckedGraph, schema: OpSchema) -> None:
        self.old, self.schema = old, schema
        self.replaced: dict[Tensor, Tensor] = {}
        self._new = Graph(old.name)
        self._views: list[NodeView] = []
        self._made: set[str] = set()  # names of new tensors, be they added or not
        for tensor in old.inputs:
            self._new.add_tensor(tensor)

    @cached_property
    def _names(self) -> frozenset[str]:
        """The names of nodes that the user chose."""
        return frozenset(node.name for node in self.old.graph.nodes)

    def has(self, tensor: Tensor) -> bool:
        """Return whether a tensor of the old graph is in the new one."""
        return tensor.name in self._new.tensors

    def current(self, tensor: Tensor | None) -> Tensor | None:
        """Return the tensor that has an input's values, in any of the two types."""
        return None if tensor is None else self.replaced.get(tensor, tensor)

    def fresh(self, name: str, like: Tensor, dtype: DType, data: Blob | None = None) -> Tensor:
        """Return a new tensor for the values of another one; a constant if it has data."""
        while name in self.old.graph.tensors or name in self._made:
            name += "_"
        self._made.add(name)
        kind = TensorKind.NATIVE if data is None else TensorKind.STATIC
        return Tensor(name, dtype, like.shape, kind, data=data, source=like.source)

    def cast(self, source: Tensor, target: Tensor, sources: Iterable[str] | None = None) -> None:
        """Add a node that converts a tensor to the type of another one, which it writes.

        Args:
            source: The tensor.
            target: The other one.
            sources: Names of the user's nodes that it is a part of; by default its own.
        """
        schema, name = self.schema, f"{target.name}.cast"
        while name in self._names:
            name += "_"
        ends = [source], [target]
        node = Node(name, schema.package, schema.name, *ends, sources=sources)
        view, faults = matched_node(node, schema)
        if view is None:
            raise AssertionError(f"{schema.full_name} does not convert: {faults}")
        self.add(node, [source], [target], view)

    def add(
        self,
        node: Node,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        view: NodeView,
    ) -> None:
        """Add a copy of a node with other tensors, and a view of it."""
        for tensor in (*inputs, *outputs):
            if tensor is not None and not self.has(tensor):
                self._new.add_tensor(tensor)
        made = self._new.add_node(node.with_tensors(inputs, outputs))
        self._views.append(replace(view, node=made))

    def result(self) -> CheckedGraph:
        """Return the new graph."""
        old, nodes = self.old, tuple(self._views)
        return CheckedGraph(old.name, self._new, nodes, old.inputs, old.outputs, old.observed)
