"""The algorithm `cle`: cross-layer equalization, with absorption of high biases."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from dovetail.errors import counted
from dovetail.ir import Graph, Node
from dovetail.ops import OpRegistry
from dovetail.quantization import Observation, Statistics, Workspace
from dovetail_opset import is_op
from dovetail_opset.build import replace_op
from dovetail_opset.ops.pooling import Rounding
from dovetail_quantizers.algorithms.channel_paths import (
    POOLS,
    Arrival,
    AstrayError,
    Channels,
    is_relu6,
    title,
    unchanged_notes,
)
from dovetail_quantizers.algorithms.linear_layer import (
    LINEAR,
    TRANSPOSED,
    LinearLayer,
    LinearLayers,
    Vector,
    has_weights,
    integers,
    number,
    why_not_linear,
)
from dovetail_quantizers.algorithms.parameters import ParameterizedAlgorithm, Share

_BIAS_SHARE = 1 / 64
# Limit of the factors, so that no float32 overflows.
_FURTHEST = 2.0**40
# The deviation of a few values predicts little.
_ENOUGH = 1000


@dataclass(frozen=True)
class CrossLayerEqualization(ParameterizedAlgorithm):
    """Moves scales between layers until the channels between them have equal ranges in both.

    Layers are convolutions, depthwise ones too, and FullyConnected or MatMul with constant weights.
    Between two layers each result must have one consumer, and only Relu, Relu6, pooling, a mean
    over other axes, Reshape and Transpose are allowed.

    High biases, with which an activation is never near zero, are then moved into the next layer,
    unless that one pads. Mean and deviation are taken from the samples: the paper takes them from
    batch normalizations, which are folded here.

    Attributes:
        rounds: Maximum number of rounds over all pairs of layers.
        tolerance: Stop if a round changes no range by more than this share.
        replace_relu6: Whether Relu6 between two layers is replaced by Relu; else it ends the chain.
        absorb_biases: Whether high biases are moved; else no samples are needed.
        deviations: Standard deviations below the mean from which a bias is high.

    Source: Nagel et al. 2019, Data-Free Quantization Through Weight Equalization and Bias
    Correction; SDK reference, Enhanced Quantization Techniques.
    """

    name: ClassVar[str] = "cle"

    rounds: Annotated[int, Meta(ge=1, le=10_000)] = 100
    tolerance: Share = 5e-3
    replace_relu6: bool = True
    absorb_biases: bool = True
    deviations: Annotated[float, Meta(ge=0, le=100)] = 3.0

    def observe(self, graph: Graph, ops: OpRegistry) -> Sequence[Observation]:
        """Return the outputs of layers with high biases, and the inputs of Relu6."""
        pairs = self._search(graph, ops).pairs
        cut = {
            _read(node): Observation(_read(node)) for pair in pairs for node in _relu6(pair, ops)
        }
        if not self.absorb_biases:
            return tuple(cut.values())
        results = [pair.first.node.outputs[0] for pair in pairs if can_absorb(pair)]
        highs = {t.name: Observation(t.name, axis=len(t.shape) - 1) for t in results}
        return tuple((cut | highs).values())

    def rewrite(self, work: Workspace) -> Sequence[str]:
        """Equalize layers and move high biases; return notes on each layer."""
        search = self._search(work.graph, work.ops, work.given)
        pairs = search.pairs
        if not pairs:
            return (*unchanged_notes(search.left), "no two layers could be equalized")
        rounds, moved = self._equalize(search.chains())
        absorbed = move_high_biases(pairs, work.seen, self.deviations) if self.absorb_biases else {}
        notes = [_summary(pair, absorbed.get(pair.first.node, 0)) for pair in pairs]
        notes += [_without_relu6(work, node) for pair in pairs for node in _relu6(pair, work.ops)]
        for layer in search.layers_in_pairs():
            layer.store(work.graph)
        if moved > self.tolerance:
            notes.append(f"ranges still changed by {moved:.1%} in round {rounds}, the last one")
        return (*notes, *unchanged_notes(search.left))

    def _search(self, graph: Graph, ops: OpRegistry, given: Collection[str] = ()) -> Search:
        return Search(graph, ops, relu6=self.replace_relu6, given=given)

    def _equalize(self, chains: Sequence[Sequence[Pair]]) -> tuple[int, float]:
        """Return the number of rounds, and the largest change of a range in the last one."""
        done, moved = 0, math.inf
        while done < self.rounds and moved > self.tolerance:
            for chain in chains:
                level(chain)
            moved = max(equalize(pair) for chain in chains for pair in chain)
            done += 1
        return done, moved


def _relu6(pair: Pair, ops: OpRegistry) -> list[Node]:
    return [node for node in pair.path if is_relu6(node, ops)]


def _read(node: Node) -> str:
    assert node.inputs[0] is not None
    return node.inputs[0].name


def _without_relu6(work: Workspace, node: Node) -> str:
    """Replace a Relu6 by a Relu, and return a note on the effect."""
    graph, seen = work.graph, work.seen.get(_read(node))
    note = f"{title(node)} was replaced by Relu"
    if seen is not None:
        most = float(seen.maximum.max(initial=0))
        reached = f"the Relu6 clipped nothing (at most {most:.3g})"
        note += (
            f"; {f'the Relu6 clipped up to {most - 6:.3g}' if most > 6 else reached} in the samples"
        )
    replace_op(graph, node, "Relu")
    return note


def _summary(pair: Pair, absorbed: int) -> str:
    minimum, maximum = pair.factors.min(initial=math.inf), pair.factors.max(initial=0)
    pair_title = f"{title(pair.first.node)} -> {title(pair.second.node)}"
    count = counted(len(pair.factors), "channel")
    note = f"{pair_title}: {count} divided by {minimum:.3g} to {maximum:.3g}"
    return f"{note}, {counted(absorbed, 'high bias', 'high biases')} moved" if absorbed else note


def equalizable(graph: Graph, ops: OpRegistry) -> set[str]:
    """Return the names of layers whose input channels the algorithm can scale."""
    found = set()
    for node in graph.nodes:
        if is_op(node, *LINEAR) and has_weights(node):
            with contextlib.suppress(AstrayError):
                found.add(_reached(graph, ops, node, relu6=True).node.name)
    return found


def _reached(
    graph: Graph, ops: OpRegistry, node: Node, *, relu6: bool, given: Collection[str] = ()
) -> Arrival:
    """Return the only layer that reads the output channels of a layer.

    Raises:
        AstrayError: There is none, or other ops read them, too.
    """
    made = node.outputs[0]
    channels = Channels(graph, ops, made.shape[-1] if made.shape else 0, relu6, given=given)
    (found,) = channels.arrivals(made, len(made.shape) - 1)
    return found


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
        ops: Finds its ops.
        relu6: Whether Relu6 counts as Relu.
        given: Names of tensors with given encodings: layers next to them are unchanged.

    Attributes:
        pairs: In the order of computation.
        left: Layers that are left out, with the reasons.
    """

    def __init__(
        self, graph: Graph, ops: OpRegistry, *, relu6: bool, given: Collection[str] = ()
    ) -> None:
        self.pairs: list[Pair] = []
        self.left: list[tuple[Node, str]] = []
        self._graph = graph
        self._ops = ops
        self._relu6 = relu6
        self._given = given
        self._layers = LinearLayers()
        for node in graph.nodes:
            if is_op(node, *LINEAR) and has_weights(node):
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
        try:
            found = _reached(self._graph, self._ops, node, relu6=self._relu6, given=self._given)
        except AstrayError as why:
            self.left.append((node, str(why)))
            return
        for each in (node, found.node):
            why_not = why_not_linear(self._graph, each, self._given)
            if why_not is not None:
                self.left.append((node, f"{title(each)} cannot be rewritten: {why_not}"))
                return
        self.pairs.append(Pair(self._layers[node], self._layers[found.node], found.path))


def level(chain: Sequence[Pair]) -> None:
    """Equalize the magnitudes of whole layers.

    Channels then need few rounds; otherwise such a difference would move slowly from pair to pair.
    One factor t for each pair, in logarithms, makes the ranges equal on average:
    `made + t[i - 1] - t[i] = taken + t[i] - t[i + 1]`.
    """
    excess = np.zeros(len(chain))
    for i, pair in enumerate(chain):
        made, taken, both = _comparable(pair)
        if both.any():
            excess[i] = np.mean(np.log(made[both]) - np.log(taken[both]))
    bands = 2 * np.eye(len(chain)) - np.eye(len(chain), k=1) - np.eye(len(chain), k=-1)
    for pair, exponent in zip(chain, np.linalg.solve(bands, excess), strict=True):
        _divide(pair, np.full(len(pair.factors), exponent))


def equalize(pair: Pair) -> float:
    """Equalize the ranges of a pair's channels; return the largest relative change."""
    made, taken, both = _comparable(pair)
    exponents = np.zeros(len(made))
    exponents[both] = (np.log(made[both]) - np.log(taken[both])) / 2
    return float(np.abs(_divide(pair, exponents) - 1).max(initial=0))


def _comparable(
    pair: Pair,
) -> tuple[Vector, Vector, np.ndarray[tuple[int, ...], np.dtype[np.bool]]]:
    """Return the ranges on both sides, and where both are positive and finite."""
    made, taken = pair.ranges()
    return made, taken, (made > 0) & (taken > 0) & np.isfinite(made) & np.isfinite(taken)


def _divide(pair: Pair, exponents: Vector) -> Vector:
    wanted = pair.factors * np.exp(np.clip(exponents, -80, 80))
    factors = np.clip(wanted, 1 / _FURTHEST, _FURTHEST) / pair.factors
    pair.divide(factors)
    return np.asarray(factors)


def can_absorb(pair: Pair) -> bool:
    """Return whether shifting the channels of a pair shifts the outputs of its second layer.

    Padding and sums over windows prevent this, because padded zeros do not shift.
    """
    if is_op(pair.second.node, *TRANSPOSED) or any(integers(pair.second.node, "pad_amount")):
        return False
    return all(_passes_constants(node) for node in pair.path)


def move_high_biases(
    pairs: Sequence[Pair], seen: Mapping[str, Statistics], deviations: float
) -> dict[Node, int]:
    """Move the high biases of equalized pairs into the second layers.

    The paper moves the part that is some deviations below the mean, and accepts clipping of lower
    values. Here no value of a sample is clipped, and a channel needs a thousand values.

    Args:
        pairs: The pairs of a graph.
        seen: Statistics from before equalization, by channel of a first layer's output.
        deviations: Number of standard deviations below the mean.

    Returns:
        The number of changed channels, by first layer.
    """
    counts: dict[Node, int] = {}
    for pair in pairs:
        found = seen.get(pair.first.node.outputs[0].name)
        if found is None or not can_absorb(pair) or found.mean.shape != pair.factors.shape:
            continue
        if found.count < _ENOUGH or not np.isfinite(found.mean_square).all():
            continue  # calibration reports values that are not finite
        low = np.minimum(found.mean - deviations * np.sqrt(found.variance), found.minimum)
        high = np.maximum(low, 0) / pair.factors
        if high.any():
            pair.first.bias = pair.first.bias - high
            pair.second.bias = pair.second.bias + pair.second.response(high)
            counts[pair.first.node] = int(np.count_nonzero(high))
    return counts


def _passes_constants(node: Node) -> bool:
    if is_op(node, "ReduceSum"):
        return False
    if is_op(node, *POOLS):
        # a window beyond the input contains zeros, or fewer values
        padded = any(integers(node, "pad_amount"))
        return not padded and number(node, "rounding_mode") == Rounding.FLOOR
    return True
