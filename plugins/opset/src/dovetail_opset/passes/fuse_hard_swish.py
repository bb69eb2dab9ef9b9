"""Recognition of HardSwish written in small ops."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.ir import Graph, Node
from dovetail.ir.patterns import Pattern, commutative, either, number, op, value
from dovetail_opset._variants import Variants
from dovetail_opset.ops.activation import HardSigmoid, ReluMinMax
from dovetail_opset.passes._patterns import PRODUCTS, Found, fuse, fuse_matches
from dovetail_opset.passes._rewrite import bound


def _at_least_0(x: Pattern) -> Pattern:
    return either(op("Relu", x), commutative("ElementWiseMaximum", x, number(0)))


def _at_most_6(x: Pattern) -> Pattern:
    return commutative("ElementWiseMinimum", x, number(6))


def _is_0_to_6(node: Node) -> bool:
    clip = bound(node)
    return isinstance(clip, ReluMinMax) and (clip.min_value, clip.max_value) == (0, 6)


def _is_hard_sigmoid(node: Node) -> bool:
    neuron = bound(node)
    gate = neuron.single if isinstance(neuron, Variants) else None
    if not isinstance(gate, HardSigmoid):
        return False
    return math.isclose(gate.alpha, 1 / 6, rel_tol=PRODUCTS.near) and gate.beta == 0.5


_X = value("x")
_SHIFTED = commutative("ElementWiseAdd", _X, number(3))
_CLIPPED = either(
    op("Relu6", _SHIFTED),
    op("ReluMinMax", _SHIFTED, where=_is_0_to_6),
    _at_most_6(_at_least_0(_SHIFTED)),
    _at_least_0(_at_most_6(_SHIFTED)),
)
_HARD_SWISH = either(
    PRODUCTS.scaled_of(_X, _CLIPPED, 1 / 6),
    PRODUCTS.of(_X, op("ElementWiseNeuron", _X, where=_is_hard_sigmoid)),
)


@dataclass(frozen=True, slots=True)
class FuseHardSwish:
    """Fuse x * clip(x + 3, 0, 6) / 6, or x times a HARD_SIGMOID of slope 1/6, to HardSwish.

    The clip is Relu6, ReluMinMax, or a minimum and a maximum with numbers; the factor 1/6 applies
    to x, the clip or the product.
    """

    name: str = "fuse-hard-swish"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        return fuse_matches(graph, _HARD_SWISH, _fuse)


def _fuse(graph: Graph, match: Found) -> bool:
    return fuse(graph, match, "HardSwish") is not None
