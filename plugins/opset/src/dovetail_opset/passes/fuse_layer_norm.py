"""Recognition of layer normalization written in small ops."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph
from dovetail.ir.patterns import any_number, commutative, op, value
from dovetail_opset.passes._patterns import Found, fuse_matches, fuse_norm, kept_axes, square

_X = value("x")
_CENTRED = op("ElementWiseSubtract", _X, value("mean", op("ReduceMean", _X)))
_VARIANCE = op("ReduceMean", square(value("centred")))
_LAYER_NORM = op(
    "ElementWiseDivide",
    value("centred", _CENTRED),
    op(
        "ElementWiseSquareRoot",
        commutative("ElementWiseAdd", value("variance", _VARIANCE), any_number("epsilon")),
    ),
)


@dataclass(frozen=True, slots=True)
class FuseLayerNorm:
    """Fuse (x - mean) / sqrt(mean of squares + epsilon) * gamma + beta to LayerNorm.

    gamma and beta are constants over the axes; either may be missing.
    """

    name: str = "fuse-layer-norm"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        return fuse_matches(graph, _LAYER_NORM, _fuse)


def _fuse(graph: Graph, match: Found) -> bool:
    axes, others = (kept_axes(graph.producer(match.values[n])) for n in ("mean", "variance"))
    return axes is not None and axes == others and fuse_norm(graph, match, "LayerNorm", axes)
