"""Checks of the nodes of a graph against their ops, with inference of the outputs."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.errors import DovetailError, Problem, UnsupportedOpError
from dovetail.ir import Graph, Node, Spec, Tensor, TensorKind
from dovetail.ir.check import find_faults, raise_faults
from dovetail.ops.op import Op, Port
from dovetail.ops.registry import OpRegistry
from dovetail.ops.schema import OpSchema


def input_specs(node: Node) -> list[Spec | None]:
    """Return the specs of a node's inputs; None for omitted ones."""
    return [None if t is None or t.kind is TensorKind.NULL else t.spec for t in node.inputs]


def bind_node(schema: OpSchema, node: Node) -> Op:
    """Return a node's op with its params; the node must have no faults."""
    return schema.bind(node.params, input_specs(node))


def find_op_faults(graph: Graph, registry: OpRegistry) -> list[Problem]:
    """Return every structural fault and every node that does not match its op."""
    found = find_faults(graph)
    if found:
        return found  # ops cannot be checked on a broken structure
    return [p for node in graph.nodes for p in node_faults(node, registry)]


def check_ops(graph: Graph, registry: OpRegistry) -> None:
    """Raise if a graph has faults.

    Raises:
        UnsupportedOpError: The graph uses unknown ops; all are listed, with their number of nodes.
        GraphError: The graph has faults; all are listed.
    """
    if missing := _missing(graph, registry):
        raise UnsupportedOpError(
            "the graph uses ops that no available op package defines",
            where=f"graph '{graph.name}'",
            problems=missing,
            hint="install the dist of the op package, or pass it with --op-packages",
        )
    raise_faults(graph, find_op_faults(graph, registry))


def _missing(graph: Graph, registry: OpRegistry) -> list[Problem]:
    """Return a problem for each unknown op, with the nodes that use it."""
    wanted: dict[tuple[str, str], list[Node]] = {}
    for node in graph.nodes:
        wanted.setdefault((node.package, node.op_type), []).append(node)
    found = []
    for (package, op_type), nodes in wanted.items():
        try:
            registry.find(package, op_type)
        except UnsupportedOpError as error:
            first = nodes[0].where
            where = first if len(nodes) == 1 else f"{first} and {len(nodes) - 1} more"
            found.append(Problem(error.message, where, error.hint))
    return found


def node_faults(node: Node, registry: OpRegistry) -> list[Problem]:
    """Return every reason why a node does not match its op; empty if it matches."""
    try:
        schema = registry.find(node.package, node.op_type)
    except DovetailError as error:
        return [Problem(error.message, node.where, error.hint)]
    texts = schema.arity_faults(len(node.inputs), len(node.outputs))
    if not texts:
        texts += _port_faults(schema.inputs, node.inputs)
        texts += _port_faults(schema.outputs, node.outputs)
    texts += schema.param_faults(node.params)
    if texts:
        return [Problem(text, node.where) for text in texts]
    return _inference_faults(schema, node)


def _port_faults(ports: tuple[Port, ...], tensors: Sequence[Tensor | None]) -> list[str]:
    found = []
    for i, tensor in enumerate(tensors):
        port = ports[min(i, len(ports) - 1)]
        if tensor is None or tensor.kind is TensorKind.NULL:
            if not port.optional:
                found.append(f"missing required input {port.name}")
        elif port.dtypes and tensor.dtype not in port.dtypes:
            allowed = ", ".join(d.name for d in port.dtypes)
            found.append(f"{port.name} '{tensor.name}' is {tensor.dtype.name}; allowed: {allowed}")
    return found


def _inference_faults(schema: OpSchema, node: Node) -> list[Problem]:
    ins = input_specs(node)
    declared = [t.spec for t in node.outputs]
    try:
        inferred = schema.infer(schema.bind(node.params, ins), ins, declared)
    except DovetailError as error:
        return [Problem(error.message, node.where, error.hint), *error.problems]
    if len(inferred) < len(node.outputs):
        text = f"has {len(node.outputs)} outputs, but {schema.full_name} returns {len(inferred)}"
        return [Problem(text, node.where)]
    return [
        Problem(
            f"output '{tensor.name}' is declared {tensor.dtype.name} {tensor.shape}, "
            f"but {schema.full_name} returns {spec.dtype.name} {spec.shape}",
            node.where,
        )
        for tensor, spec in zip(node.outputs, inferred, strict=False)  # omitted trailing inputs
        if (tensor.dtype, tensor.shape) != (spec.dtype, spec.shape)
    ]
