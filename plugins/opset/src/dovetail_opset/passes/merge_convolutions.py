"""Sums of convolutions of one tensor as one convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Graph, Node
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.passes._rewrite import (
    bound,
    first_input,
    is_constant,
    is_float,
    merge,
    sole_producer,
)
from dovetail_opset.passes.fold_batchnorm import (
    CONVOLUTIONS,
    channel_bias,
    channel_values,
    new_bias,
    new_constant,
)

Filters = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MergeConvolutions:
    """Merge two convolutions of one tensor whose results are added, or one and a Batchnorm.

    These are the branches of RepVGG, MobileOne and the like, which train with several of them. The
    filters of one are a part of the window of the other, so that no product is added. Both have
    constant float weights, and their results no other reader.

    It runs on request only: where one branch has much larger weights, such as a Batchnorm, little
    is left of the others when the sum is quantized.
    """

    name: str = "merge-convolutions"
    phase: str = "fusion"
    after: str | None = None
    on_request: bool = True

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        # the list has sums before sums of them
        return any([_merge(graph, node) for node in nodes_of(graph, "ElementWiseAdd")])


def _merge(graph: Graph, total: Node) -> bool:
    found = dict.fromkeys(sole_producer(graph, tensor) for tensor in total.inputs)
    branches = sorted((node for node in found if node is not None), key=_taps, reverse=True)
    if len(branches) != 2 or not is_op(branches[0], *CONVOLUTIONS):
        return False
    large, small = branches
    result, weight = total.outputs[0], large.inputs[1]
    is_plain = all(node.outputs[0].spec == result.spec for node in branches)
    if not is_plain or result.encoding is not None or weight is None:
        return False
    if first_input(large) is not first_input(small) or not _has_numbers(large):
        return False
    biases = [channel_bias(node, result.shape[-1]) for node in branches]
    added = _placed(small, large) if _has_numbers(small) else None
    if added is None or biases[0] is None or biases[1] is None:
        return False
    inputs = [
        first_input(large),
        new_constant(graph, weight, f"{weight.name}.merged", weight.values() + added),
    ]
    if len(large.inputs) > 2 or len(small.inputs) > 2:
        shift = tuple(small.inputs[2:])
        inputs.append(new_bias(graph, large, shift, biases[0] + biases[1]))
    graph.set_inputs(large, inputs)
    unread = small.outputs[0]
    large.sources = tuple(dict.fromkeys((*large.sources, *small.sources)))
    merge(graph, large, total)
    graph.remove_node(small)
    graph.remove_tensor(unread)
    return True


def _taps(node: Node) -> int:
    """Return the number of elements of a convolution's window; 0 for other ops."""
    weight = node.inputs[1] if is_op(node, *CONVOLUTIONS) else None
    return 0 if weight is None else math.prod(weight.shape[:-2])


def _has_numbers(node: Node) -> bool:
    """Return whether the weights of a branch are constant floats."""
    weight = node.inputs[1] if len(node.inputs) > 1 else None
    return weight is not None and is_constant(weight) and is_float(weight, node.outputs[0])


def _placed(small: Node, large: Node) -> Filters | None:
    """Return the filters of a branch in the window of another; None if they do not fit in it."""
    branch, window = _branch(small, large), bound(large)
    if branch is None:
        return None
    filters, before, stride, dilation = branch
    strides, dilations, pads = _steps(window)
    wanted = _shape(large)
    placed = np.zeros(wanted)
    ranges = []
    for axis, size in enumerate(filters.shape[:-2]):
        if stride[axis] != strides[axis] or (size > 1 and dilation[axis] != dilations[axis]):
            return None
        start, rest = divmod(pads[axis] - before[axis], dilations[axis])
        if rest or not 0 <= start <= wanted[axis] - size:
            return None
        ranges.append(slice(start, start + size))
    placed[tuple(ranges)] = filters
    return placed


def _branch(node: Node, large: Node) -> tuple[Filters, list[int], list[int], list[int]] | None:
    """Return a branch as filters, pads before the image, strides and dilations.

    None if its channels are not those of the other branch.
    """
    shape, axes = _shape(large), len(_shape(large)) - 2
    if is_op(node, "Batchnorm"):
        filters = _diagonal(node, large)
        return None if filters is None else (filters, [0] * axes, [1] * axes, [1] * axes)
    one, other = bound(node), bound(large)
    if node.op_type != large.op_type or _shape(node)[-2:] != shape[-2:]:
        return None
    if getattr(one, "group", 0) != getattr(other, "group", 0):
        return None
    weight = node.inputs[1]
    strides, dilations, pads = _steps(one)
    return None if weight is None else (weight.values().astype(float), pads, strides, dilations)


def _diagonal(node: Node, large: Node) -> Filters | None:
    """Return the filters of one element by which a convolution would scale each channel."""
    shape, channels = _shape(large), first_input(node).shape[-1]
    factors = channel_values(node.inputs[1], channels)
    if factors is None or shape[-1] != channels:
        return None
    filters = np.zeros((*(1,) * (len(shape) - 2), *shape[-2:]))
    # within its group, an output channel has the number of the input channel
    filters[..., np.arange(channels) % shape[-2], np.arange(channels)] = factors
    return filters


def _shape(node: Node) -> tuple[int, ...]:
    weight = node.inputs[1]
    return () if weight is None else weight.shape


def _steps(op: Any) -> tuple[list[int], list[int], list[int]]:
    """Return the strides, the dilations and the pads before the image by axis."""
    strides, dilations = (np.atleast_1d(v).tolist() for v in (op.stride, op.dilation))
    return strides, dilations, np.reshape(op.pad_amount, (-1, 2))[:, 0].tolist()
