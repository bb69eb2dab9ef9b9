"""Divisions by constants as products with their reciprocals."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType, Encoding, Graph, Node, Tensor, TensorKind
from dovetail_opset.build import replace_op, static

# Ends the name of a constant that replaces the divisor of this name.
RECIPROCAL = "_reciprocal"
_FLOATS = (DType.FLOAT_16, DType.FLOAT_32, DType.FLOAT_64)


def reciprocals_of(divisor: Tensor | None) -> Array | None:
    """Return the reciprocals of a static float tensor; None if some are 0 or not finite."""
    if divisor is None or divisor.kind is not TensorKind.STATIC or divisor.data is None:
        return None
    if divisor.dtype not in _FLOATS:
        return None
    values = divisor.values()
    with np.errstate(divide="ignore", over="ignore"):
        found = (1 / values.astype(np.float64)).astype(values.dtype)
    return found if np.all(np.isfinite(found) & (found != 0)) else None


def multiply_instead(
    graph: Graph, node: Node, reciprocals: Array, encoding: Encoding | None = None
) -> Tensor:
    """Replace a division by a constant by a multiplication, and return the factor.

    Args:
        graph: Changed.
        node: The division.
        reciprocals: The stored values of the factor, in the shape of the divisor.
        encoding: Their encoding.
    """
    x, divisor = node.inputs
    assert divisor is not None
    name, source = f"{divisor.name}{RECIPROCAL}", f"{divisor.source}{RECIPROCAL}"
    factor = static(
        graph,
        name,
        reciprocals,
        divisor.dtype,
        encoding=encoding,
        source=source,
        source_perm=divisor.source_perm,
    )
    replace_op(graph, node, "ElementWiseMultiply", [x, factor])
    if not graph.is_read(divisor):
        graph.remove_tensor(divisor)
    return factor
