"""Simulated nodes as float nodes between Dequantize and Quantize.

oneDNN has quick kernels for these, alone and in pairs, as for a model that has them itself.
"""

from __future__ import annotations

from dovetail.ir import Array, DType, Node, ScaleOffset, Spec, Tensor
from dovetail.ir.storage import DeferredBlob
from dovetail.ops import CheckedGraph, NodeView, OpRegistry, matched_node, to_real
from dovetail.ops.simulate import keeps_stored, real_specs
from dovetail.runtime.plan import KernelRegistry, Rewriting
from dovetail_opset import STANDARD

_FLOAT = DType.FLOAT_32


def with_simulated_nodes(
    graph: CheckedGraph, ops: OpRegistry, kernels: KernelRegistry
) -> CheckedGraph:
    """Return a graph in which nodes that are simulated have real values, rounded between them.

    Args:
        graph: The graph; it is returned as it is if no node is simulated by a float kernel.
        ops: Finds Dequantize and Quantize.
        kernels: The kernels.
    """
    found = {view.node for view in graph.nodes if _is_simulated(view, kernels)}
    return _Simulation(graph, ops).run(found) if found else graph


class _Simulation(Rewriting):
    """A graph while it is made; `replaced` has the real values of tensors."""

    def __init__(self, old: CheckedGraph, ops: OpRegistry) -> None:
        self._ops = ops
        super().__init__(old, ops.find(STANDARD, "Cast"))

    def run(self, simulated: set[Node]) -> CheckedGraph:
        for view in self.old.nodes:
            made = self._in_float(view) if view.node in simulated else None
            if made is None:
                self.add(view.node, view.node.inputs, view.node.outputs, view)
                continue
            self.add(made.node, made.node.inputs, made.node.outputs, made)
            for real, stored in zip(made.node.outputs, view.node.outputs, strict=True):
                if real is not stored:
                    self._convert("Quantize", real, stored, view.node)
        return self.result()

    def _in_float(self, view: NodeView) -> NodeView | None:
        """Return a node on real values, whose inputs are dequantized; None if there is none."""
        node, (schema, _) = view.node, view.definition
        specs = real_specs(schema.op, view.ins)
        inputs = [
            t if t is None or spec is None or not _is_stored(spec) else self._real(t, spec, node)
            for t, spec in zip(node.inputs, specs, strict=True)
        ]
        outputs = [
            self.fresh(f"{t.name}.result", t, _FLOAT) if _is_stored(t.spec) else t
            for t in node.outputs
        ]
        made, _ = matched_node(node.with_tensors(inputs, outputs), schema)
        if made is not None:
            for tensor, real in zip(node.inputs, inputs, strict=True):
                if tensor is not None and real is not None and tensor.data is None:
                    self._dequantize(tensor, real, node)
        return made

    def _real(self, tensor: Tensor, spec: Spec, reader: Node) -> Tensor:
        """Return the tensor of an input's real values."""
        data = None if tensor.data is None else _values(tensor, spec)
        if spec != tensor.spec:  # of a bias whose scale depends on the reader
            return self.fresh(f"{tensor.name}.{reader.name}", tensor, _FLOAT, data)
        if tensor not in self.replaced:
            self.replaced[tensor] = self.fresh(f"{tensor.name}.real", tensor, _FLOAT, data)
        return self.replaced[tensor]

    def _dequantize(self, tensor: Tensor, real: Tensor, reader: Node) -> None:
        """Add the node that dequantizes an input, unless it is there."""
        if real is not tensor and not self.has(real):
            self._convert("Dequantize", tensor, real, reader)

    def _convert(self, op_type: str, source: Tensor, target: Tensor, user: Node) -> None:
        """Add a node between stored and real values, as a part of a node of the user."""
        schema, name = self._ops.find(STANDARD, op_type), f"{target.name}.{op_type.lower()}"
        while name in self._names:
            name += "_"
        node = Node(name, STANDARD, op_type, [source], [target], sources=user.sources)
        view, faults = matched_node(node, schema)
        if view is None:
            raise AssertionError(f"{schema.full_name} does not convert: {faults}")
        self.add(node, [source], [target], view)


def _values(tensor: Tensor, spec: Spec) -> DeferredBlob:
    def make() -> Array:
        return to_real(tensor.stored(), spec)

    return DeferredBlob(_FLOAT.nbytes(tensor.shape), make, tensor.data)


def _is_simulated(view: NodeView, kernels: KernelRegistry) -> bool:
    """Return whether a float kernel computes a quantized node, of tensors with one scale."""
    if not view.is_quantized or view.package != STANDARD or kernels.runs_on_integers(view):
        return False
    schema, _ = view.definition
    if keeps_stored(schema.domain, view.ins, view.outs) or kernels.find_real(view) is None:
        return False
    tensors = [t for t in (*view.node.inputs, *view.node.outputs) if t is not None]
    return not any(t.kind.is_updateable for t in tensors) and all(
        t.data is not None
        or t.dtype in (_FLOAT, DType.BOOL_8)
        or t.dtype.is_int
        or (isinstance(t.encoding, ScaleOffset) and t.dtype.bits <= 16)
        for t in tensors
    )


def _is_stored(spec: Spec) -> bool:
    return spec.dtype.is_fixed_point and spec.encoding is not None
