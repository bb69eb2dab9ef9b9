"""Recognition of division by the Euclidean norm written in small ops."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph
from dovetail.ir.patterns import any_number, commutative, constant_number, either, number, op, value
from dovetail_opset.passes._patterns import Found, fuse, fuse_matches, kept_axes, square

_X = value("x")
_SUM = value("sum", either(op("ReduceSumSquare", _X), op("ReduceSum", square(_X))))
_NORM = either(op("ElementWiseSquareRoot", _SUM), op("ElementWisePower", _SUM, number(0.5)))
_LEAST = either(commutative("ElementWiseMaximum", _NORM, any_number("epsilon")), _NORM)
_L2_NORM = op("ElementWiseDivide", _X, either(op("Tile", _LEAST), _LEAST))


@dataclass(frozen=True, slots=True)
class FuseL2Norm:
    """Fuse x / max(root of the sum of x * x, epsilon) to L2Norm.

    Exporters repeat the norm along its axes before the division. Without a maximum, epsilon is 0.
    """

    name: str = "fuse-l2-norm"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        return fuse_matches(graph, _L2_NORM, _fuse)


def _fuse(graph: Graph, match: Found) -> bool:
    axes = kept_axes(graph.producer(match.values["sum"]))
    limit = match.values.get("epsilon")
    epsilon = 0.0 if limit is None else constant_number(limit)
    # the op rounds once where halves are rounded four times
    is_half = match.values["x"].dtype.bits < 32
    if not axes or epsilon is None or epsilon < 0 or is_half:
        return False
    return fuse(graph, match, "L2Norm", axes=axes, epsilon=epsilon) is not None
