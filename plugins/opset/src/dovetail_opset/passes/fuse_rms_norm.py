"""Recognition of root mean square normalization written in small ops."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph
from dovetail.ir.patterns import either, op, value
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

_X, _GAMMA = value("x"), value("gamma")
_MEAN = value("mean", op("ReduceMean", square(_X)))
_SPREAD = with_epsilon(_MEAN)
_ROOT, _INVERSE = root(_SPREAD), inverse_root(_SPREAD)
_SCALED = either(_X, PRODUCTS.of(_X, _GAMMA))
_RMS_NORM = either(
    op("ElementWiseDivide", _SCALED, _ROOT),
    PRODUCTS.of(_SCALED, _INVERSE),
    PRODUCTS.of(_X, PRODUCTS.of(_INVERSE, _GAMMA)),
)


@dataclass(frozen=True, slots=True)
class FuseRmsNorm:
    """Fuse x / sqrt(mean of x * x + epsilon) * gamma + beta to RmsNorm.

    The square is a product or a power; the root divides, or its inverse multiplies: Rsqrt, a power
    of -0.5, 1 over the root or its reciprocal. gamma, a constant over the axes, multiplies x, the
    inverse root or the result; gamma and beta may be missing. Patterns that center x first are
    LayerNorm, which fuse-layer-norm handles before.
    """

    name: str = "fuse-rms-norm"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        return fuse_matches(graph, _RMS_NORM, _fuse)


def _fuse(graph: Graph, match: Found) -> bool:
    axes = kept_axes(graph.producer(match.values["mean"]))
    return axes is not None and fuse_norm(graph, match, "RmsNorm", axes)
