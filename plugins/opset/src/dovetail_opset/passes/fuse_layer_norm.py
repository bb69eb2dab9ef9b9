"""Recognition of layer normalization written in small ops."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, Shape
from dovetail.ir.patterns import Pattern, commutative, either, number, op, value
from dovetail_opset.passes._patterns import (
    PRODUCTS,
    Found,
    fuse_matches,
    fuse_norm,
    inverse_root,
    kept_axes,
    root,
    square,
    with_epsilon,
)

_X, _GAMMA, _BETA = value("x"), value("gamma"), value("beta")
_MEAN = value("mean", op("ReduceMean", _X))
_CENTERED = value("centered", op("ElementWiseSubtract", _X, _MEAN))


def _not_negative(x: Pattern) -> Pattern:
    """Return the pattern of a value that may be clipped at 0."""
    return either(x, op("Relu", x), commutative("ElementWiseMaximum", x, number(0)))


_OF_CENTERED = value("squares", op("ReduceMean", square(_CENTERED)))
# As Flax has it: the mean of squares minus the square of the mean.
_OF_SQUARES = _not_negative(
    op(
        "ElementWiseSubtract",
        value("squares", op("ReduceMean", square(_X))),
        square(_MEAN),
    )
)
_INVERSE = inverse_root(with_epsilon(either(_OF_CENTERED, _OF_SQUARES)))
_SCALE = value("scale", either(_INVERSE, PRODUCTS.of(_INVERSE, _GAMMA)))
# As TensorFlow has it: x * scale + (beta - mean * scale).
_SHIFT = either(
    PRODUCTS.of(op("ElementWiseNeg", _MEAN), _SCALE),
    op("ElementWiseNeg", PRODUCTS.of(_MEAN, _SCALE)),
)
_SHIFTED = either(
    op("ElementWiseSubtract", _BETA, PRODUCTS.of(_MEAN, _SCALE)),
    commutative("ElementWiseAdd", _SHIFT, _BETA),
    _SHIFT,
)
# "plain" is the spelling that fuses over any axes.
NORMALIZED = either(
    value("plain", op("ElementWiseDivide", _CENTERED, root(with_epsilon(_OF_CENTERED)))),
    op("ElementWiseDivide", _CENTERED, root(with_epsilon(_OF_SQUARES))),
    PRODUCTS.of(_CENTERED, _SCALE),
    commutative("ElementWiseAdd", PRODUCTS.of(_X, _SCALE), _SHIFTED),
)


@dataclass(frozen=True, slots=True)
class FuseLayerNorm:
    """Fuse (x - mean) / sqrt(variance + epsilon) * gamma + beta to LayerNorm.

    gamma and beta are constants over the axes; either may be missing. The variance is the mean of
    squares of x - mean, or that of x minus the square of the mean. The root divides, or its inverse
    multiplies: x - mean, or x and the mean apart, as in x * scale + (beta - mean * scale). All but
    the first of each fuse over the last axis alone, since the HTP normalizes over no others.
    """

    name: str = "fuse-layer-norm"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        return fuse_matches(graph, NORMALIZED, _fuse)


def _fuse(graph: Graph, match: Found) -> bool:
    axes, last = normalized_axes(graph, match), (len(match.values["x"].shape) - 1,)
    if axes is None or (axes != last and "plain" not in match.values):
        return False
    return fuse_norm(graph, match, "LayerNorm", axes)


def normalized_axes(graph: Graph, match: Found) -> Shape | None:
    """Return the axes of both means of what is `NORMALIZED`; None if they differ."""
    axes, others = (kept_axes(graph.producer(match.values[n])) for n in ("mean", "squares"))
    return axes if axes == others else None
