"""Graphs of float16 values as graphs that compute them in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, DType, Graph, Node, Tensor, TensorKind
from dovetail.ir.storage import DeferredBlob
from dovetail.ops import CheckedGraph, NodeView, OpSchema, matched_node
from dovetail.ops.simulate import keeps_stored

_HALF, _FLOAT = DType.FLOAT_16, DType.FLOAT_32


def widened(graph: CheckedGraph, cast: OpSchema) -> CheckedGraph:
    """Return a graph that computes in float32 what a graph computes in float16.

    Values are rounded to float16 where they leave the graph, not from node to node. Inputs,
    outputs, observed and updateable tensors keep their types. So do nodes whose op does not support
    float32, and those that read updateable float16 values.

    Args:
        graph: The graph; it is returned as it is if no node computes float16 values.
        cast: The op that converts numbers from one of the types to the other.
    """
    wide = {view.node: _in_float32(view) for view in graph.nodes if _has_halves(view)}
    if not any(_computes(view, cast) for view in graph.nodes if wide.get(view.node)):
        return graph
    return _Widening(graph, cast).run(wide)


class _Widening:
    """The new graph while it is made."""

    def __init__(self, graph: CheckedGraph, cast: OpSchema) -> None:
        self._old, self._cast = graph, cast
        self._new = Graph(graph.name)
        self._views: list[NodeView] = []
        self._floats: dict[Tensor, Tensor] = {}  # for tensors of the old graph

    def run(self, wide: Mapping[Node, NodeView | None]) -> CheckedGraph:
        old = self._old
        for tensor in old.inputs:
            self._new.add_tensor(tensor)
        for view in old.nodes:
            float_view = wide.get(view.node)
            if float_view is None:
                self._keep(view)
            elif not (_is_cast(view, self._cast) and self._pass_on(view)):
                self._widen(view.node, float_view)
        nodes = tuple(self._views)
        return CheckedGraph(old.name, self._new, nodes, old.inputs, old.outputs, old.observed)

    def _pass_on(self, view: NodeView) -> bool:
        """Let the readers of a cast's result read its input; return whether they can."""
        (source,), (result,) = view.node.inputs, view.node.outputs
        is_visible = self._old.is_visible(result)
        if source is None or (is_visible and result.dtype is _FLOAT):
            return False
        if is_visible:
            self._keep(view)
        self._floats[result] = self._read(source)
        return True

    def _widen(self, node: Node, view: NodeView) -> None:
        inputs = [None if t is None else self._read(t) for t in node.inputs]
        outputs = [self._float(t) if t.dtype is _HALF else t for t in node.outputs]
        self._add(node, inputs, outputs, view)
        for old, new in zip(node.outputs, outputs, strict=True):
            if old is not new and self._old.is_visible(old):
                self._convert(new, old)

    def _keep(self, view: NodeView) -> None:
        """Add a node as it is, after casts of what it reads in float16."""
        inputs = [None if t is None else self._unchanged(t) for t in view.node.inputs]
        self._add(view.node, inputs, view.node.outputs, view)

    def _unchanged(self, tensor: Tensor) -> Tensor:
        """Return the tensor with an input's values in its own type, after a cast if need be."""
        found = self._floats.get(tensor, tensor)
        if found.dtype is tensor.dtype:
            return found
        if tensor.data is None and tensor.name not in self._new.tensors:
            self._convert(found, tensor)
        return tensor

    def _read(self, tensor: Tensor) -> Tensor:
        """Return the tensor with an input's values in float32, after a cast if need be."""
        if tensor in self._floats or tensor.dtype is not _HALF or tensor.kind is TensorKind.NULL:
            return self._floats.get(tensor, tensor)
        found = self._float(tensor)
        if tensor.data is None:
            self._convert(tensor, found)
        return found

    def _float(self, tensor: Tensor) -> Tensor:
        """Return a new tensor for float16 values in float32."""
        name = f"{tensor.name}.float32"
        while name in self._old.graph.tensors or name in self._new.tensors:
            name += "_"
        found = Tensor(name, _FLOAT, tensor.shape, TensorKind.NATIVE, source=tensor.source)
        if tensor.data is not None:
            found = Tensor(name, _FLOAT, tensor.shape, TensorKind.STATIC, data=_floats(tensor))
        self._floats[tensor] = found
        return found

    def _convert(self, source: Tensor, target: Tensor) -> None:
        name = f"{target.name}.cast"
        package, _, op_type = self._cast.full_name.partition("::")
        view, faults = matched_node(Node(name, package, op_type, [source], [target]), self._cast)
        if view is None:
            raise AssertionError(f"{self._cast.full_name} does not convert: {faults}")
        self._add(view.node, [source], [target], view)

    def _add(
        self,
        node: Node,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        view: NodeView,
    ) -> None:
        for tensor in (*inputs, *outputs):
            if tensor is not None and tensor.name not in self._new.tensors:
                self._new.add_tensor(tensor)
        made = Node(
            node.name,
            node.package,
            node.op_type,
            inputs,
            outputs,
            node.params,
            sources=node.sources,
        )
        self._views.append(replace(view, node=self._new.add_node(made)))


def _floats(tensor: Tensor) -> DeferredBlob:
    def make() -> Array:
        return tensor.stored().astype(np.float32)

    return DeferredBlob(2 * tensor.spec.nbytes, make, tensor.data)


def _has_halves(view: NodeView) -> bool:
    return any(spec is not None and spec.dtype is _HALF for spec in (*view.ins, *view.outs))


def _in_float32(view: NodeView) -> NodeView | None:
    """Return the view of a node with float32 for float16; None if it must stay as it is."""
    node = view.node
    halves = [t for t in node.inputs if t is not None and t.dtype is _HALF]
    if view.schema is None or any(tensor.kind.is_updateable for tensor in halves):
        return None
    changed = Node(
        node.name,
        node.package,
        node.op_type,
        [t if t is None or t.kind is TensorKind.NULL else _stand_in(t) for t in node.inputs],
        [_stand_in(t) for t in node.outputs],
        node.params,
    )
    return matched_node(changed, view.schema)[0]


def _stand_in(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype is not _HALF else Tensor(tensor.name, _FLOAT, tensor.shape)


def _computes(view: NodeView, cast: OpSchema) -> bool:
    schema, _ = view.definition
    return not _is_cast(view, cast) and not keeps_stored(schema.domain, view.ins, view.outs)


def _is_cast(view: NodeView, cast: OpSchema) -> bool:
    """Return whether a node does nothing but convert between float16 and float32."""
    types = {spec.dtype for spec in (*view.ins, *view.outs) if spec is not None}
    return view.schema is cast and types == {_HALF, _FLOAT}
