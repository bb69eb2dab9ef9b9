"""The algorithm `smooth-quant`: moves outliers of activations into weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dovetail.ir import Graph
from dovetail.ops import OpRegistry
from dovetail.quantization import Observation, QuantizationAlgorithm, Statistics, Workspace
from dovetail_quantizers.algorithms.channel_paths import title
from dovetail_quantizers.algorithms.linear_layer import Vector
from dovetail_quantizers.algorithms.parameters import Between, check_parameters
from dovetail_quantizers.algorithms.smooth_quant_groups import Group, Search

# Limit of the factors.
_FURTHEST = 1e5


@dataclass(frozen=True)
class SmoothQuant(QuantizationAlgorithm):
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

    alpha: float = field(default=0.5, metadata=Between(0, 1).metadata)

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            ConfigError: Values have the wrong type or are out of range; all are listed.
        """
        check_parameters(self, self.name)

    def observe(self, graph: Graph, ops: OpRegistry) -> Sequence[Observation]:
        """Return the channels that can be divided, to observe their magnitudes."""
        arrivals = [each for group in Search(graph).groups for each in group.arrivals]
        wanted = {each.data.name: Observation(each.data.name, axis=each.axis) for each in arrivals}
        return tuple(wanted.values())

    def rewrite(self, work: Workspace) -> Sequence[str]:
        """Smooth the groups and return notes on each layer."""
        search = Search(work.graph, work.given)
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
        f"{title(group.source.node)} -> {readers}: {group.count} channels divided by "
        f"{minimum:.3g} to {maximum:.3g}"
    )
