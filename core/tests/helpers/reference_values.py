"""Values of nodes and graphs by the references of their ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.ir import Array, Graph, Node
from dovetail.ops import OpRegistry, bind_node, input_specs, simulate


def run_node(node: Node, inputs: Sequence[Array | None], ops: OpRegistry) -> tuple[Array, ...]:
    """Return the stored values of a node's outputs for those of its inputs."""
    schema = ops.find(node.package, node.op_type)
    outs = [tensor.spec for tensor in node.outputs]
    return simulate(schema, bind_node(schema, node), inputs, input_specs(node), outs)


def values_of(graph: Graph, feeds: Mapping[str, Array], ops: OpRegistry) -> dict[str, Array]:
    """Return the stored values of all tensors of a graph, by name."""
    values = {t.name: t.stored() for t in graph.tensors.values() if t.data is not None}
    values |= feeds
    for node in graph.nodes:
        inputs = [None if t is None else values[t.name] for t in node.inputs]
        results = run_node(node, inputs, ops)
        values |= {t.name: result for t, result in zip(node.outputs, results, strict=True)}
    return values
