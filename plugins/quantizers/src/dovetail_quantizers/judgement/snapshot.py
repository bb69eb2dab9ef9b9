"""The state of a graph, to detect changes and to undo them."""

from __future__ import annotations

from typing import Any, TypeVar

from dovetail.ir import Graph, Node, Tensor

_T = TypeVar("_T")
_State = dict[_T, tuple[Any, ...]]

_TENSOR_FIELDS = ("kind", "dtype", "shape", "encoding", "data", "source", "source_perm")
_NODE_FIELDS = ("op_type", "inputs", "outputs", "params")


class Snapshot:
    """The state of a graph at one time. It shares the tensors, the nodes and the data.

    Args:
        graph: The graph; its data must be replaced, never written in place.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors, self._nodes = _state(graph)

    def is_changed(self) -> bool:
        """Return whether the graph differs from the snapshot."""
        tensors, nodes = _state(self._graph)
        return not (_are_same(self._tensors, tensors) and _are_same(self._nodes, nodes))

    def restore(self) -> None:
        """Undo all changes: tensors, nodes and their order become those of the snapshot."""
        graph = self._graph
        for node in graph.nodes:
            graph.remove_node(node)
        for tensor in list(graph.tensors.values()):
            graph.remove_tensor(tensor)
        for tensor, values in self._tensors.items():
            for name, value in zip(_TENSOR_FIELDS, values, strict=True):
                setattr(tensor, name, value)
            graph.add_tensor(tensor)
        for node, values in self._nodes.items():
            for name, value in zip(_NODE_FIELDS, values, strict=True):
                setattr(node, name, value)
            node.params = dict(node.params)
            graph.add_node(node)


def _state(graph: Graph) -> tuple[_State[Tensor], _State[Node]]:
    tensors = {
        t: tuple(getattr(t, name) for name in _TENSOR_FIELDS) for t in graph.tensors.values()
    }
    nodes = {n: (n.op_type, n.inputs, n.outputs, dict(n.params)) for n in graph.nodes}
    return tensors, nodes


def _are_same(one: _State[Any], other: _State[Any]) -> bool:
    """Return whether two states are equal, in order; data are compared by identity."""
    if len(one) != len(other):
        return False
    return all(
        a is b and all(x is y or _is_equal(x, y) for x, y in zip(one[a], other[b], strict=True))
        for a, b in zip(one, other, strict=True)
    )


def _is_equal(x: Any, y: Any) -> bool:
    return not (hasattr(x, "__array__") or hasattr(y, "__array__")) and bool(x == y)
