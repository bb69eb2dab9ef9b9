"""The algorithm `smooth-quant`: moves outliers of activations into weights."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dovetail.errors import counted
from dovetail.ir import Graph, Node, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization import Observation, Statistics, Workspace
from dovetail_opset import is_op
from dovetail_quantizers.algorithms.channel_paths import (
    Arrival,
    AstrayError,
    Channels,
    passes,
    title,
    unchanged_notes,
)
from dovetail_quantizers.algorithms.linear_layer import (
    LINEAR,
    LinearLayer,
    LinearLayers,
    Vector,
    has_weights,
    integers,
    store_vector,
    why_not_constant,
    why_not_linear,
)
from dovetail_quantizers.algorithms.parameters import ParameterizedAlgorithm, Share

# Limit of the factors.
_FURTHEST = 1e5

_OVER_AXES = ("LayerNorm", "RmsNorm")
NORMS = (*_OVER_AXES, "Batchnorm", "InstanceNorm", "GroupNorm")


@dataclass(frozen=True)
class SmoothQuant(ParameterizedAlgorithm):
    """Divides channels of activations, and multiplies the weights that read them.

    A channel with the maximum magnitude a, read by weights with the maximum magnitude w, is divided
    by `a ** alpha / w ** (1 - alpha)`. The division goes into the weights of the producer:
    LayerNorm, RmsNorm and the other normalizations, a convolution, FullyConnected or MatMul,
    directly or through Relu, pooling, a mean over other axes, Reshape or Transpose. All consumers
    must be convolutions, FullyConnected or MatMul with constant weights; else the layers are
    unchanged.

    Attributes:
        alpha: The balance: 0 equalizes the weights, 1 the activations.

    Source: Xiao et al. 2022, SmoothQuant: Accurate and Efficient Post-Training Quantization for
    Large Language Models, eq. 4.
    """

    name: ClassVar[str] = "smooth-quant"

    alpha: Share = 0.5

    def observe(self, graph: Graph, ops: OpRegistry) -> Sequence[Observation]:
        """Return the channels that can be divided, to observe their magnitudes."""
        arrivals = [each for group in Search(graph, ops).groups for each in group.arrivals]
        wanted = {each.data.name: Observation(each.data.name, axis=each.axis) for each in arrivals}
        return tuple(wanted.values())

    def rewrite(self, work: Workspace) -> Sequence[str]:
        """Smooth the groups and return notes on each layer."""
        search = Search(work.graph, work.ops, work.given)
        notes = []
        for group in search.groups:
            factors = self._factors(group, work.seen)
            group.source.divide_outputs(factors)
            for layer in group.layers:
                layer.multiply_inputs(factors)
            notes.append(_summary(group, factors))
        for each in search.changed():
            each.store(work.graph)
        return (*notes, *search.notes)

    def _factors(self, group: Group, seen: Mapping[str, Statistics]) -> Vector:
        shown = [seen[x.data.name].absmax.reshape(-1, group.count) for x in group.arrivals]
        data = np.concatenate(shown).max(axis=0)
        weights = np.max([each.input_ranges(group.count) for each in group.layers], axis=0)
        factors = np.ones(group.count)
        both = (data > 0) & (weights > 0) & np.isfinite(data)
        factors[both] = data[both] ** self.alpha / weights[both] ** (1 - self.alpha)
        return np.clip(factors, 1 / _FURTHEST, _FURTHEST)


def _summary(group: Group, factors: Vector) -> str:
    readers = ", ".join(title(each.node) for each in group.arrivals)
    minimum, maximum = factors.min(initial=math.inf), factors.max(initial=0)
    return (
        f"{title(group.source.node)} -> {readers}: {counted(group.count, 'channel')} divided by "
        f"{minimum:.3g} to {maximum:.3g}"
    )


class Norm:
    """A normalization with a vector of scales and one of shifts.

    Attributes:
        node: The node.
    """

    def __init__(self, node: Node, channels: int) -> None:
        self.node = node
        self._over = np.ones(channels)

    def divide_outputs(self, factors: Vector) -> None:
        """Divide the channels by factors, (c,)."""
        self._over *= factors

    def store(self, graph: Graph) -> None:
        """Store the changed vectors."""
        gamma, beta = [*self.node.inputs, None, None][1:3]
        ones = np.ones(len(self._over))
        scale = ones if gamma is None else gamma.values().astype(np.float64)
        store_vector(graph, self.node, 1, scale / self._over)
        if beta is not None:
            store_vector(graph, self.node, 2, beta.values().astype(np.float64) / self._over)


@dataclass(frozen=True, slots=True)
class Group:
    """Channels that can be divided.

    Attributes:
        source: Their producer.
        count: Number of channels.
        arrivals: Their consumers.
        layers: The layers of the consumers, in the same order.
    """

    source: LinearLayer | Norm
    count: int
    arrivals: tuple[Arrival, ...]
    layers: tuple[LinearLayer, ...]


class Search:
    """The groups of a graph.

    Args:
        graph: The graph.
        ops: Finds its ops.
        given: Names of tensors with given encodings: layers next to them are unchanged.

    Attributes:
        groups: In the order of computation.
        notes: Reasons why layers are left out, with names of the user's model.
    """

    def __init__(self, graph: Graph, ops: OpRegistry, given: Collection[str] = ()) -> None:
        self.groups: list[Group] = []
        self._given = given
        self._graph = graph
        self._ops = ops
        self._layers = LinearLayers()
        failed: dict[Node, str] = {}
        for node in graph.nodes:
            if is_op(node, *NORMS) or (is_op(node, *LINEAR) and has_weights(node)):
                try:
                    self.groups.append(self._group(node))
                except AstrayError as why:
                    failed[node] = str(why)
        self.notes = self._left(failed)

    def changed(self) -> list[LinearLayer | Norm]:
        """Return each node of a group once."""
        found = [each for group in self.groups for each in (group.source, *group.layers)]
        return list({each.node: each for each in found}.values())

    def _group(self, node: Node) -> Group:
        made, axis = node.outputs[0], _channel_axis(node)
        count = made.shape[axis] if made.shape else 0
        channels = Channels(self._graph, self._ops, count, branches=True, given=self._given)
        found = channels.arrivals(made, axis)
        is_norm = is_op(node, *NORMS)
        if why := self._why_not(node, is_norm=is_norm):
            raise AstrayError(f"{title(node)} cannot be rewritten: {why}")
        for each in found:
            if why := self._why_not(each.node, is_norm=False):
                raise AstrayError(f"{title(each.node)} cannot be rewritten: {why}")
        layers = tuple(self._layers[each.node] for each in found)
        for layer in layers:
            layer.repeat_inputs(count)
        return Group(
            Norm(node, count) if is_norm else self._layers[node], count, tuple(found), layers
        )

    def _why_not(self, node: Node, *, is_norm: bool) -> str | None:
        if is_norm:
            return why_not_constant(node, self._given)
        return why_not_linear(self._graph, node, self._given)

    def _left(self, failed: dict[Node, str]) -> list[str]:
        reached = {each.node for group in self.groups for each in group.arrivals}
        return unchanged_notes(
            (node, self._why_left(node, failed))
            for node in self._graph.nodes
            if is_op(node, *LINEAR) and has_weights(node) and node not in reached
        )

    def _why_left(self, node: Node, failed: dict[Node, str]) -> str:
        source: Node | None = node
        while source is not None:
            data: Tensor | None = source.inputs[0]
            source = None if data is None else self._graph.producer(data)
            if source in failed:
                return failed[source]
            if source is not None and not passes(source, self._ops):
                return f"{title(source)} cannot divide its channels"
        return "the data is an input of the graph"


def _channel_axis(node: Node) -> int:
    """Return the axis along which a node has a weight for each index.

    Raises:
        AstrayError: There are several axes.
    """
    rank = len(node.outputs[0].shape)
    if not is_op(node, *_OVER_AXES):
        return rank - 1
    axes = integers(node, "axes")
    if len(axes) != 1:
        raise AstrayError(f"{title(node)} has weights along several axes")
    return axes[0] % rank
