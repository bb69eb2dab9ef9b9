"""Graphs of float16 values as graphs that compute them in float32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.ir import Array, DType, Node, Tensor, TensorKind
from dovetail.ir.storage import DeferredBlob
from dovetail.ops import CheckedGraph, NodeView, OpSchema, matched_node
from dovetail.ops.simulate import keeps_stored
from dovetail.runtime.plan.grouping import groups_of
from dovetail.runtime.plan.kernels import KernelRegistry
from dovetail.runtime.plan.rewriting import Rewriting

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


def rounded(
    wide: CheckedGraph, graph: CheckedGraph, kernels: KernelRegistry, cast: OpSchema
) -> CheckedGraph:
    """Return a widened graph with values that are rounded to float16 from step to step.

    Args:
        wide: The widened graph.
        graph: The graph that it was made of, whose tensors it does not round.
        kernels: The kernels; what they fuse is rounded once.
        cast: As for `widened`.
    """
    ends = {
        tensor
        for group in groups_of(wide, kernels)
        if any(_computes(view, cast) for view in group)
        for tensor in group[-1].node.outputs
        if tensor.dtype is _FLOAT and tensor.name not in graph.graph.tensors
    }
    made = Rewriting(wide, cast)
    for view in wide.nodes:
        node = view.node
        made.add(node, [made.current(t) for t in node.inputs], node.outputs, view)
        for tensor in node.outputs:
            if tensor in ends and not all(_narrows(n, tensor) for n in wide.consumers(tensor)):
                half = made.fresh(f"{tensor.name}.half", tensor, _HALF)
                made.replaced[tensor] = made.fresh(f"{tensor.name}.rounded", tensor, _FLOAT)
                made.cast(tensor, half)
                made.cast(half, made.replaced[tensor])
    return made.result()


class _Widening(Rewriting):
    """A widened graph while it is made; `replaced` has tensors of float32."""

    def run(self, wide: Mapping[Node, NodeView | None]) -> CheckedGraph:
        for view in self.old.nodes:
            float_view = wide.get(view.node)
            if float_view is None:
                self._keep(view)
            elif not (_is_cast(view, self.schema) and self._pass_on(view)):
                self._widen(view.node, float_view)
        return self.result()

    def _pass_on(self, view: NodeView) -> bool:
        """Let the readers of a cast's result read its input; return whether they can."""
        (source,), (result,) = view.node.inputs, view.node.outputs
        is_visible = self.old.is_visible(result)
        if source is None or (is_visible and result.dtype is _FLOAT):
            return False
        if is_visible:
            self._keep(view)
        self.replaced[result] = self._read(source)
        return True

    def _widen(self, node: Node, view: NodeView) -> None:
        inputs = [None if t is None else self._read(t) for t in node.inputs]
        outputs = [self._float(t) if t.dtype is _HALF else t for t in node.outputs]
        self.add(node, inputs, outputs, view)
        for old, new in zip(node.outputs, outputs, strict=True):
            if old is not new and self.old.is_visible(old):
                self.cast(new, old)

    def _keep(self, view: NodeView) -> None:
        """Add a node as it is, after casts of what it reads in float16."""
        inputs = [None if t is None else self._unchanged(t) for t in view.node.inputs]
        self.add(view.node, inputs, view.node.outputs, view)

    def _unchanged(self, tensor: Tensor) -> Tensor:
        """Return the tensor with an input's values in its own type, after a cast if need be."""
        found = self.replaced.get(tensor, tensor)
        if found.dtype is tensor.dtype:
            return found
        if tensor.data is None and not self.has(tensor):
            self.cast(found, tensor)
        return tensor

    def _read(self, tensor: Tensor) -> Tensor:
        """Return the tensor with an input's values in float32, after a cast if need be."""
        if tensor in self.replaced or tensor.dtype is not _HALF or tensor.kind is TensorKind.NULL:
            return self.replaced.get(tensor, tensor)
        found = self._float(tensor)
        if tensor.data is None:
            self.cast(tensor, found)
        return found

    def _float(self, tensor: Tensor) -> Tensor:
        """Return a new tensor for float16 values in float32."""
        data = None if tensor.data is None else _floats(tensor)
        self.replaced[tensor] = self.fresh(f"{tensor.name}.float32", tensor, _FLOAT, data)
        return self.replaced[tensor]


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
    inputs = [t if t is None or t.kind is TensorKind.NULL else _as_float(t) for t in node.inputs]
    changed = node.with_tensors(inputs, [_as_float(t) for t in node.outputs])
    return matched_node(changed, view.schema)[0]


def _as_float(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype is not _HALF else Tensor(tensor.name, _FLOAT, tensor.shape)


def _computes(view: NodeView, cast: OpSchema) -> bool:
    if view.is_opaque or _is_cast(view, cast):
        return False
    schema, _ = view.definition
    return not keeps_stored(schema.domain, view.ins, view.outs)


def _is_cast(view: NodeView, cast: OpSchema) -> bool:
    """Return whether a node does nothing but convert between float16 and float32."""
    types = {spec.dtype for spec in (*view.ins, *view.outs) if spec is not None}
    return view.schema is cast and types == {_HALF, _FLOAT}


def _narrows(node: Node, tensor: Tensor) -> bool:
    """Return whether a reader of a tensor is a cast to float16."""
    return node.inputs == (tensor,) and node.outputs[0].dtype is _HALF
