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
from dovetail_quantizers.algorithms.cle_absorption import can_absorb, extract_qdq
from dovetail_quantizers.algorithms.cle_pairs import Pair, Search
from dovetail_quantizers.algorithms.cle_scales import equalize, level
from dovetail_quantizers.algorithms.parameters import Between, check_parameters


@dataclass(frozen=True)
class CrossLayerEqualization(QuantizationAlgorithm):
    """Moves scales between layers until the channels between them have equal ranges in both.

    It works on convolutions, depthwise ones too, and FullyConnected or MatMul with constant
    weights, where just one node reads each result between two of them, and where what is between
    is Relu, Relu6, pooling, a mean over other axes, Reshape or Transpose.

    Biases that are so high that an activation never comes near zero are then absorbed into the next
    layer, where that does not pad. So are mean and deviation taken from the samples, for the
    batch normalizations that the paper takes them from are folded.

    Attributes:
        rounds: Most rounds over all pairs of layers.
        tolerance: Ranges have settled where a round changes none by more than this share.
        replace_relu6: Whether Relu6 becomes Relu where it is between two layers; else it ends the
            chain.
        absorb_biases: Whether high biases are absorbed; else no samples are needed.
        deviations: As many standard deviations below the mean a bias must be to be absorbed.

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
            ConfigError: A value is of the wrong type, or out of range; says all that are.
        """
        check_parameters(self, self.name)

    def observe(self, graph: Graph, ops: OpRegistry) -> Sequence[Observation]:
        """Ask for the results of layers whose biases could be absorbed, and what Relu6 cuts."""
        pairs = self._search(graph).pairs
        cut = {_read(node): Observation(_read(node)) for pair in pairs for node in _relu6(pair)}
        if not self.absorb_biases:
            return tuple(cut.values())
        results = [pair.first.node.outputs[0] for pair in pairs if can_absorb(pair)]
        highs = {t.name: Observation(t.name, axis=len(t.shape) - 1) for t in results}
        return tuple((cut | highs).values())

    def rewrite(self, work: Workspace) -> Sequence[str]:
        """Equalizes and absorbs; the notes say what became of each layer."""
        search = self._search(work.graph, work.given)
        pairs = search.pairs
        if not pairs:
            return (*search.notes, "no two layers could be equalized")
        rounds, moved = self._equalize(search.chains())
        absorbed = extract_qdq(pairs, work.seen, self.deviations) if self.absorb_biases else {}
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
        """Return the number of rounds, and by what share the last one changed a range at most."""
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
    """Put Relu where Relu6 was, and return a note on what that may change."""
    graph, seen = work.graph, work.seen.get(_read(node))
    note = f"{title(node)} was replaced by Relu"
    if seen is not None:
        most = float(seen.maximum.max(initial=0))
        reached = f"it clipped nothing (at most {most:.3g})"
        note += f"; {f'it clipped up to {most - 6:.3g}' if most > 6 else reached} in the samples"
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
    return f"{note}, {absorbed} high biases absorbed" if absorbed else note
