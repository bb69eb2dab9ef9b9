"""Weights and biases of nodes, by the roles that ops declare; other inputs are activations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dovetail.ir import Graph, Node, Scalar, Tensor, TensorKind
from dovetail.ops import Bias, OpRegistry, OpSchema, Role, Weight


def roles_of(node: Node, ops: OpRegistry) -> Mapping[int, Role]:
    """Return the roles of a node's inputs, by number; those not named are activations."""
    return schema_of(node, ops).op.quantization_roles


def inputs_with_roles(graph: Graph, ops: OpRegistry) -> Iterator[tuple[Node, Tensor, Role | None]]:
    """Yield each node with each present input and its role; None for activations."""
    for node in graph.nodes:
        roles = roles_of(node, ops)
        for i, tensor in present(node):
            yield node, tensor, roles.get(i)


def weight_axes(role: Weight, node: Node, rank: int) -> tuple[int | None, int | None]:
    """Return the axis of a weight's output channels and the one that is summed over."""
    axis, summed = role.axis, role.summed
    if role.transposed_by is not None and is_set(node, role.transposed_by):
        axis, summed = summed, axis
    return tuple(None if a is None else a % rank for a in (axis, summed))  # type: ignore[return-value]


def channel_axes(graph: Graph, ops: OpRegistry) -> dict[Tensor, int]:
    """Return the axes of output channels of weights, in their layouts, and 0 for biases."""
    found: dict[Tensor, int] = {}
    for node, tensor, role in inputs_with_roles(graph, ops):
        if isinstance(role, Bias) and tensor.shape:
            found.setdefault(tensor, 0)
        elif isinstance(role, Weight) and tensor.shape:
            axis, _ = weight_axes(role, node, len(tensor.shape))
            if axis is not None:
                found.setdefault(tensor, axis)
    return found


def is_set(node: Node, name: str) -> bool:
    """Return whether a flag among a node's params is true; one that is left out is not."""
    param = node.params.get(name)
    return isinstance(param, Scalar) and bool(param.value)


def schema_of(node: Node, ops: OpRegistry) -> OpSchema:
    """Return a node's schema."""
    return ops.find(node.package, node.op_type)


def present(node: Node) -> list[tuple[int, Tensor]]:
    """Return the present inputs of a node with their numbers."""
    inputs = enumerate(node.inputs)
    return [(i, t) for i, t in inputs if t is not None and t.kind is not TensorKind.NULL]
