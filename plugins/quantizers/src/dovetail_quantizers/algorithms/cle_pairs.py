"""Pairs of layers whose channels can be scaled against each other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from dovetail.ir import Graph, Node
from dovetail_quantizers.algorithms.channel_paths import AstrayError, Channels, title
from dovetail_quantizers.algorithms.linear_layer import (
    LINEAR,
    LinearLayer,
    Vector,
    has_weights,
    is_standard,
    why_not_linear,
)

_BIAS_SHARE = 1 / 64


@dataclass(slots=True)
class Pair:
    """Two layers; the second is the only consumer of the first.

    Attributes:
        first, second: The layers.
        path: The nodes between them.
        factors: The divisors of the channels between them, so far.
    """

    first: LinearLayer
    second: LinearLayer
    path: tuple[Node, ...]
    factors: Vector = field(init=False)

    def __post_init__(self) -> None:
        """Start with no scaling."""
        self.second.repeat_inputs(self.first.made)
        self.factors = np.ones(self.first.made)

    def ranges(self) -> tuple[Vector, Vector]:
        """Return the ranges of the channels between, in the weights of the first and second layer.

        A share of the bias counts as a weight: a channel that a folded normalization switched off
        has tiny weights, and equalizing only those would make its bias huge.
        """
        made = np.maximum(self.first.output_ranges(), np.abs(self.first.bias) * _BIAS_SHARE)
        return made, self.second.input_ranges(len(self.factors))

    def divide(self, factors: Vector) -> None:
        """Divide the channels between."""
        self.first.divide_outputs(factors)
        self.second.multiply_inputs(factors)
        self.factors = self.factors * factors


class Search:
    """The pairs of a graph.

    Args:
        graph: The graph.
        relu6: Whether Relu6 counts as Relu.
        given: Names of tensors with given encodings: layers next to them are unchanged.

    Attributes:
        pairs: In the order of computation.
        notes: Reasons why layers are left out, with names of the user's model.
    """

    def __init__(self, graph: Graph, *, relu6: bool, given: Collection[str] = ()) -> None:
        self.pairs: list[Pair] = []
        self.notes: list[str] = []
        self._graph = graph
        self._relu6 = relu6
        self._given = given
        self._layers: dict[Node, LinearLayer] = {}
        for node in graph.nodes:
            if is_standard(node, *LINEAR) and has_weights(node):
                self._add(node)

    def layers_in_pairs(self) -> list[LinearLayer]:
        """Return each layer of a pair once."""
        return list({id(x): x for pair in self.pairs for x in (pair.first, pair.second)}.values())

    def chains(self) -> list[list[Pair]]:
        """Return the pairs in chains: the second layer of each is the first of the next."""
        following = {pair.first.node: pair for pair in self.pairs}
        later = {pair.second.node for pair in self.pairs}
        found = []
        for pair in self.pairs:
            if pair.first.node not in later:
                row = [pair]
                while (after := following.get(row[-1].second.node)) is not None:
                    row.append(after)
                found.append(row)
        return found

    def _add(self, node: Node) -> None:
        made = node.outputs[0]
        try:
            count = made.shape[-1] if made.shape else 0
            channels = Channels(self._graph, count, self._relu6, given=self._given)
            (found,) = channels.arrivals(made, len(made.shape) - 1)
        except AstrayError as why:
            self.notes.append(f"{title(node)} is unchanged: {why}")
            return
        for each in (node, found.node):
            why_not = why_not_linear(self._graph, each, self._given)
            if why_not is not None:
                self.notes.append(
                    f"{title(node)} is unchanged: {title(each)} cannot be rewritten: {why_not}"
                )
                return
        self.pairs.append(Pair(self._layer(node), self._layer(found.node), found.path))

    def _layer(self, node: Node) -> LinearLayer:
        if node not in self._layers:
            self._layers[node] = LinearLayer(node)
        return self._layers[node]
