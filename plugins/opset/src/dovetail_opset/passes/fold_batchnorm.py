"""Folding of scales and shifts per channel into the weights before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Graph, Node, Shape, Tensor
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.build import static
from dovetail_opset.families import FAMILIES
from dovetail_opset.passes._rewrite import (
    bound,
    first_input,
    is_constant,
    is_float,
    merge,
    sole_producer,
)

CONVOLUTIONS = FAMILIES["convolution"]
_TRANSPOSED = FAMILIES["transposed"]

# Ops with weights in in[1], each for one output channel, and a bias in in[2].
_NORMS = ("Batchnorm", "GroupNorm", "InstanceNorm")
SCALED = (*CONVOLUTIONS, *_TRANSPOSED, *FAMILIES["matrix"], *_NORMS)


@dataclass(frozen=True, slots=True)
class FoldBatchnorm:
    """Fold Batchnorm, and ElementWiseMultiply by channel constants, into the layer before.

    The layer is a convolution, transposed or not, FullyConnected, MatMul, another Batchnorm or a
    normalization with factors of the channels, with constant float weights and a single reader. A
    Reshape that keeps the channels may follow it. A Batchnorm before a layer stays: its shift would
    differ where the layer pads.
    """

    name: str = "fold-batchnorm"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in nodes_of(graph, "Batchnorm", "ElementWiseMultiply"):
            if is_op(node, "Batchnorm"):
                changed |= _fold(graph, node, node.inputs[0], node.inputs[1], node.inputs[2:])
            else:
                x, factor = node.inputs
                if is_constant(x):
                    x, factor = factor, x
                changed |= _fold(graph, node, x, factor, ())
        return changed


def channel_values(tensor: Tensor | None, channels: int) -> NDArray[np.float64] | None:
    """Return a constant as one number per channel of the last axis; None if it is not that."""
    if tensor is None or not is_constant(tensor) or not is_float(tensor):
        return None
    values = tensor.values().astype(np.float64).reshape(-1)
    if values.size == 1:
        return np.full(channels, values)
    return values if values.size == tensor.shape[-1] == channels else None


def channel_bias(layer: Node, channels: int) -> NDArray[np.float64] | None:
    """Return a layer's bias, zeros if it has none; None if it is not constant."""
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    return np.zeros(channels) if bias is None else channel_values(bias, channels)


def new_constant(graph: Graph, like: Tensor, name: str, values: Array) -> Tensor:
    """Add a constant with the type and origin of another."""
    rounded = values.astype(like.dtype.storage, copy=False)
    perm = like.source_perm if values.shape == like.shape else None
    return static(graph, name, rounded, like.dtype, source=like.source, source_perm=perm)


def _fold(
    graph: Graph,
    node: Node,
    x: Tensor | None,
    factor: Tensor | None,
    shift: tuple[Tensor | None, ...],
) -> bool:
    last = sole_producer(graph, x)
    layer = None if last is None else _before_reshape(graph, last)
    if x is None or last is None or layer is None or not is_op(layer, *SCALED):
        return False
    if graph.only_reader(x) is not node or x.spec != node.outputs[0].spec:
        return False
    weight, channels = layer.inputs[1], x.shape[-1]
    if weight is None or not (is_constant(weight) and is_float(weight, x)):
        return False
    if is_op(layer, "MatMul") and not _has_columns(graph, layer, weight, channels):
        return False
    scale, bias = channel_values(factor, channels), channel_bias(layer, channels)
    added = channel_values(shift[0], channels) if any(shift) else np.zeros(channels)
    if scale is None or bias is None or added is None:
        return False
    scaled = _product(weight.values(), _aligned(layer, weight.shape, scale))
    inputs = [
        layer.inputs[0],
        new_constant(graph, weight, f"{weight.name}.folded", scaled),
        new_bias(graph, layer, shift, bias * scale + added),
    ]
    graph.set_inputs(layer, inputs)
    if not graph.is_read(weight):
        graph.remove_tensor(weight)  # so that the next weights take its memory
    layer.sources = tuple(dict.fromkeys((*layer.sources, *node.sources)))
    merge(graph, last, node)
    return True


def _before_reshape(graph: Graph, node: Node) -> Node | None:
    """Return the layer whose channels a Reshape keeps, None without one; other nodes as given."""
    if not is_op(node, "Reshape"):
        return node
    source, result = first_input(node), node.outputs[0]
    keeps = bool(source.shape) and source.shape[-1:] == result.shape[-1:]
    return sole_producer(graph, source) if keeps and source.encoding is None else None


def _has_columns(graph: Graph, layer: Node, weight: Tensor, channels: int) -> bool:
    """Return whether a MatMul has one column of weights for each channel, and no other reader."""
    op: Any = bound(layer)
    is_last = not op.transpose_in1 and weight.shape[-1] == channels
    # a model ties its embeddings: folded ones would be a copy
    return is_last and len(graph.consumers(weight)) == 1


def _aligned(layer: Node, shape: Shape, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one number per output channel in a shape that broadcasts to the weights."""
    if layer.op_type == "FullyConnected":
        return scale[:, None]
    each = shape[-1]
    if each == scale.size:
        return scale
    # a transposed convolution in groups: those of the inputs have the outputs side by side
    groups = scale.size // each
    return np.repeat(scale.reshape(groups, each), shape[-2] // groups, axis=0)


def _product(values: Array, factors: NDArray[np.float64]) -> Array:
    """Return values times factors, rounded once, in the type of the values."""
    narrow = factors.astype(values.dtype)
    if np.array_equal(narrow, factors):  # the usual case: quicker, and rounded once, too
        return np.asarray(values * narrow)
    made = np.empty(values.shape, values.dtype)
    # NumPy converts a block at a time
    return np.multiply(values, factors, made, dtype=np.float64, casting="same_kind")


def new_bias(
    graph: Graph, layer: Node, shift: tuple[Tensor | None, ...], values: NDArray[np.float64]
) -> Tensor:
    """Add a folded bias, with the origin of the layer's own bias or else of the shift."""
    name = f"{layer.name}.bias"
    for known in (*layer.inputs[2:], *shift):
        if known is not None:
            return new_constant(graph, known, name, values)
    dtype = layer.outputs[0].dtype
    return static(graph, name, values.astype(dtype.storage), dtype)
