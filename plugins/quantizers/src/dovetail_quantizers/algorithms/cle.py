"""The algorithm `cle`: cross-layer equalization, with absorption of high biases."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from dovetail.ir import Graph, Node
from dovetail.ops import OpRegistry
from dovetail.quantization import Observation, QuantizationAlgorithm, Workspace
from dovetail_opset import PACKAGE
from dovetail_quantizers.algorithms.channel_paths import is_relu6, title
from dovetail_quantizers.algorithms.cle_absorption import can_absorb, move_high_biases
from dovetail_quantizers.algorithms.cle_pairs import Pair, Search
from dovetail_quantizers.algorithms.cle_scales import equalize, level
from dovetail_quantizers.algorithms.parameters import Between, check_parameters


@dataclass(frozen=True)
class CrossLayerEqualization(QuantizationAlgorithm):
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

    rounds: int = field(default=100, metadata=Between(1, 10_000).metadata)
    tolerance: float = field(default=5e-3, metadata=Between(0, 1).metadata)
    replace_relu6: bool = True
    absorb_biases: bool = True
    deviations: float = field(default=3.0, metadata=Between(0, 100).metadata)

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            ConfigError: Values have the wrong type or are out of range; all are listed.
        """
        check_parameters(self, self.name)

    def observe(self, graph: Graph, ops: OpRegistry) -> Sequence[Observation]:
        """Return the outputs of layers with high biases, and the inputs of Relu6."""
        pairs = self._search(graph).pairs
        cut = {_read(node): Observation(_read(node)) for pair in pairs for node in _relu6(pair)}
        if not self.absorb_biases:
            return tuple(cut.values())
        results = [pair.first.node.outputs[0] for pair in pairs if can_absorb(pair)]
        highs = {t.name: Observation(t.name, axis=len(t.shape) - 1) for t in results}
        return tuple((cut | highs).values())

    def rewrite(self, work: Workspace) -> Sequence[str]:
        """Equalize layers and move high biases; return notes on each layer."""
        search = self._search(work.graph, work.given)
        pairs = search.pairs
        if not pairs:
            return (*search.notes, "no two layers could be equalized")
        rounds, moved = self._equalize(search.chains())
        absorbed = move_high_biases(pairs, work.seen, self.deviations) if self.absorb_biases else {}
        notes = [_summary(pair, absorbed.get(pair.first.node, 0)) for pair in pairs]
        notes += [_without_relu6(work, node) for pair in pairs for node in _relu6(pair)]
        for layer in search.layers_in_pairs():
            layer.store(work.graph)
        if moved > self.tolerance:
            notes.append(f"ranges still changed by {moved:.1%} in round {rounds}, the last one")
        return (*notes, *search.notes)

    def _search(self, graph: Graph, given: Collection[str] = ()) -> Search:
        return Search(graph, relu6=self.replace_relu6, given=given)

    def _equalize(self, chains: Sequence[Sequence[Pair]]) -> tuple[int, float]:
        """Return the number of rounds, and the largest change of a range in the last one."""
        done, moved = 0, math.inf
        while done < self.rounds and moved > self.tolerance:
            for chain in chains:
                level(chain)
            moved = max(equalize(pair) for chain in chains for pair in chain)
            done += 1
        return done, moved


def _relu6(pair: Pair) -> list[Node]:
    return [node for node in pair.path if is_relu6(node)]


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
    inputs, outputs = node.inputs, node.outputs
    graph.remove_node(node)
    graph.add_node(Node(node.name, PACKAGE.name, "Relu", inputs, outputs, {}, sources=node.sources))
    return note


def _summary(pair: Pair, absorbed: int) -> str:
    minimum, maximum = pair.factors.min(initial=math.inf), pair.factors.max(initial=0)
    note = (
        f"{title(pair.first.node)} -> {title(pair.second.node)}: {len(pair.factors)} channels "
        f"divided by {minimum:.3g} to {maximum:.3g}"
    )
    return f"{note}, {absorbed} high biases moved" if absorbed else note
