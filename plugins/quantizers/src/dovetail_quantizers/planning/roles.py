"""The table of the standard ops' weights and biases. Every other float input is an activation."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.ir import Graph, Node, Scalar, Tensor
from dovetail.ops import OpRegistry, OpSchema
from dovetail.quantization import Bias, Granularity, Role, Weight
from dovetail_opset import PACKAGE

_FILTERS = Weight(-1, Granularity.CHANNEL)
_CONVOLUTION: Mapping[int, Role] = {1: _FILTERS, 2: Bias(0, 1)}
_NORM: Mapping[int, Role] = {1: Weight(), 2: Bias()}

ROLES: Mapping[str, Mapping[int, Role]] = {
    **dict.fromkeys(
        (
            "Conv1d",
            "Conv2d",
            "Conv3d",
            "DepthWiseConv1d",
            "DepthWiseConv2d",
            "TransposeConv1d",
            "TransposeConv2d",
            "TransposeConv3d",
        ),
        _CONVOLUTION,
    ),
    "FullyConnected": {1: Weight(0, Granularity.ROW, summed=1), 2: Bias(0, 1)},
    "MatMul": {
        0: Weight(),
        1: Weight(-1, Granularity.ROW, transposed_by="transpose_in1", summed=-2),
        2: Bias(0, 1),
    },
    "Batchnorm": {1: Weight(), 2: Bias(0, 1)},
    **dict.fromkeys(("LayerNorm", "RmsNorm", "InstanceNorm", "GroupNorm"), _NORM),
    "Prelu": {1: Weight()},
    "Lstm": {
        **dict.fromkeys((*range(1, 7), *range(12, 21), 22), Weight()),
        **dict.fromkeys((7, 8, 9, 21, 23), Bias()),
    },
    "Gru": {**dict.fromkeys(range(1, 7), Weight()), **dict.fromkeys(range(7, 13), Bias())},
}

# Nodes of these are float as a whole: output, weights and bias.
FLOAT_TOGETHER = frozenset(
    name for name in ROLES if name.startswith(("Conv", "DepthWise", "Transpose"))
) | {"FullyConnected", "MatMul"}


def roles_of(node: Node, ops: OpRegistry) -> Mapping[int, Role]:
    """Return the roles of a node's inputs, by number; those not named are activations."""
    if node.package == PACKAGE.name:
        return ROLES.get(node.op_type, {})
    declared: Mapping[int, Role] = getattr(
        ops.find(node.package, node.op_type).op, "quantization_roles", {}
    )
    return declared


def weight_axes(role: Weight, node: Node, rank: int) -> tuple[int | None, int | None]:
    """Return the axis of a weight's output channels and the one that is summed over."""
    axis, summed = role.axis, role.summed
    if role.transposed_by is not None and is_set(node, role.transposed_by):
        axis, summed = summed, axis
    return tuple(None if a is None else a % rank for a in (axis, summed))  # type: ignore[return-value]


def channel_axes(graph: Graph, ops: OpRegistry) -> dict[Tensor, int]:
    """Return the axes of output channels of weights, in their layouts, and 0 for biases."""
    found: dict[Tensor, int] = {}
    for node in graph.nodes:
        roles = roles_of(node, ops)
        for i, tensor in present(node):
            role = roles.get(i)
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
    return [(i, t) for i, t in enumerate(node.inputs) if t is not None and t.kind.name != "NULL"]
