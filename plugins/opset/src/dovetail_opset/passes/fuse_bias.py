"""Fusion of the addition of a constant into the bias of the layer before it."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, Node, Tensor
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.passes._rewrite import is_constant, is_float, merge, sole_producer
from dovetail_opset.passes.fold_batchnorm import (
    SCALED,
    channel_bias,
    channel_values,
    new_constant,
)


@dataclass(frozen=True, slots=True)
class FuseBias:
    """Fuse ElementWiseAdd or ElementWiseSubtract of a channel constant into a layer's bias.

    The layer is a convolution, transposed or not, FullyConnected, MatMul, Batchnorm,
    GroupNorm or InstanceNorm on floats, with a single reader.
    """

    name: str = "fuse-bias"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in nodes_of(graph, "ElementWiseAdd", "ElementWiseSubtract"):
            x, constant = node.inputs
            if is_constant(x) and is_op(node, "ElementWiseAdd"):
                x, constant = constant, x
            changed |= _fuse(graph, node, x, constant)
        return changed


def _fuse(graph: Graph, node: Node, x: Tensor | None, constant: Tensor | None) -> bool:
    layer = sole_producer(graph, x)
    if x is None or layer is None or constant is None or not is_op(layer, *SCALED):
        return False
    if not is_float(x) or x.spec != node.outputs[0].spec:
        return False
    channels = x.shape[-1]
    bias, added = channel_bias(layer, channels), channel_values(constant, channels)
    if bias is None or added is None:
        return False
    total = bias - added if is_op(node, "ElementWiseSubtract") else bias + added
    fused = new_constant(graph, constant, f"{layer.name}.bias", total)
    graph.set_inputs(layer, [*layer.inputs[:2], fused])
    merge(graph, layer, node)
    return True
