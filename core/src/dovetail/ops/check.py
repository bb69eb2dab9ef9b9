"""Checks of the nodes of a graph against their ops, with inference of the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dovetail.errors import DovetailError, Problem, UnsupportedOpError
from dovetail.ir import Graph, Node, Spec, Tensor, TensorKind
from dovetail.ir.check import find_faults, raise_faults
from dovetail.ops.checked import NOTHING, CheckedGraph, NodeView, Observed
from dovetail.ops.op import Op, Port
from dovetail.ops.registry import OpRegistry
from dovetail.ops.schema import OpSchema

# As names, which are quicker; see `dovetail.ir.tensor`.
_NULL = TensorKind.NULL


def input_specs(node: Node) -> list[Spec | None]:
    """Return the specs of a node's inputs; None for omitted ones."""
    return [None if t is None or t.kind is _NULL else t.spec for t in node.inputs]


def bind_node(schema: OpSchema, node: Node) -> Op:
    """Return a node's op with its params; the node must have no faults."""
    return schema.bind(node.params, input_specs(node))


def find_op_faults(graph: Graph, registry: OpRegistry) -> list[Problem]:
    """Return every structural fault and every node that does not match its op."""
    # ops cannot be checked on a broken structure
    return find_faults(graph) or [p for n in graph.nodes for p in node_faults(n, registry)]


def check_ops(graph: Graph, registry: OpRegistry, observed: Observed = NOTHING) -> CheckedGraph:
    """Return a checked graph.

    Raises:
        UnsupportedOpError: The graph uses unknown ops; all are listed, with their number of nodes.
        GraphError: The graph has faults; all are listed.
    """
    require_known(graph.nodes, registry, f"graph '{graph.name}'")
    raise_faults(graph, find_faults(graph))  # ops cannot be checked on a broken structure
    views: dict[Node, NodeView] = {}
    faults: list[Problem] = []
    for node in graph.nodes:
        view, found = checked_node(node, registry)
        faults += found
        if view is not None:
            views[node] = view
    raise_faults(graph, faults)
    return CheckedGraph.of(graph, views, observed)


def require_known(nodes: Iterable[Node], registry: OpRegistry, where: str) -> None:
    """Raise if nodes use unknown ops.

    Args:
        nodes: The nodes.
        registry: The ops.
        where: Name of their graph.

    Raises:
        UnsupportedOpError: They do; all ops are listed, with their number of nodes.
    """
    if missing := _missing(nodes, registry):
        raise UnsupportedOpError(
            "the graph uses ops that no available op package defines",
            where=where,
            problems=missing,
            hint="install the dist of the op package, or pass it with --op-packages",
        )


def _missing(nodes: Iterable[Node], registry: OpRegistry) -> list[Problem]:
    """Return a problem for each unknown op, with the nodes that use it."""
    wanted: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        wanted.setdefault((node.package, node.op_type), []).append(node)
    found = []
    for (package, op_type), users in wanted.items():
        try:
            registry.find(package, op_type)
        except UnsupportedOpError as error:
            first = users[0].where
            where = first if len(users) == 1 else f"{first} and {len(users) - 1} more"
            found.append(error.as_problem(where))
    return found


def node_faults(node: Node, registry: OpRegistry) -> list[Problem]:
    """Return every reason why a node does not match its op; empty if it matches."""
    return checked_node(node, registry)[1]


def checked_node(node: Node, registry: OpRegistry) -> tuple[NodeView | None, list[Problem]]:
    """Bind a node to its op and infer its outputs.

    Returns:
        The view of the node, or None and every reason why it does not match its op.
    """
    try:
        schema = registry.find(node.package, node.op_type)
    except DovetailError as error:
        return None, [error.as_problem(node.where)]
    return matched_node(node, schema)


def matched_node(node: Node, schema: OpSchema) -> tuple[NodeView | None, list[Problem]]:
    """Return the view of a node, or None and every reason why it does not match this op."""
    texts = schema.arity_faults(len(node.inputs), len(node.outputs))
    if not texts:
        texts += _all_port_faults(node, schema)
    texts += schema.param_faults(node.params)
    if texts:
        return None, [Problem(text, node.where) for text in texts]
    return _inferred(schema, node)


def opaque_node(node: Node) -> NodeView:
    """Return the view of a node whose op is unknown: with what the graph declares."""
    return NodeView(node, None, None, tuple(input_specs(node)), tuple(t.spec for t in node.outputs))


def _all_port_faults(node: Node, schema: OpSchema) -> list[str]:
    ins, outs = _port_faults(schema.inputs, node.inputs), _port_faults(schema.outputs, node.outputs)
    return ins + outs


def _port_faults(ports: tuple[Port, ...], tensors: Sequence[Tensor | None]) -> list[str]:
    found = []
    for i, tensor in enumerate(tensors):
        port = ports[min(i, len(ports) - 1)]
        if tensor is None or tensor.kind is _NULL:
            if not port.optional:
                found.append(f"missing required input {port.name}")
        elif port.dtypes and tensor.dtype not in port.dtypes:
            allowed = ", ".join(d.name for d in port.dtypes)
            found.append(f"{port.name} '{tensor.name}' is {tensor.dtype.name}; allowed: {allowed}")
    return found


def _inferred(schema: OpSchema, node: Node) -> tuple[NodeView | None, list[Problem]]:
    ins = tuple(input_specs(node))
    declared = tuple(t.spec for t in node.outputs)
    try:
        op = schema.bind(node.params, ins)
        inferred = schema.infer(op, ins, declared)
    except DovetailError as error:
        return None, [error.as_problem(node.where), *error.problems]
    if len(inferred) < len(node.outputs):
        text = f"has {len(node.outputs)} outputs, but {schema.full_name} returns {len(inferred)}"
        return None, [Problem(text, node.where)]
    faults = [
        Problem(
            f"output '{tensor.name}' is declared {tensor.dtype.name} {tensor.shape}, "
            f"but {schema.full_name} returns {spec.dtype.name} {spec.shape}",
            node.where,
        )
        for tensor, spec in zip(node.outputs, inferred, strict=False)  # omitted trailing inputs
        if (tensor.dtype, tensor.shape) != (spec.dtype, spec.shape)
    ]
    return (None if faults else NodeView(node, schema, op, ins, declared)), faults
