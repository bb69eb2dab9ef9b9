"""Constants of several values that a model divides by, as factors.

The small values of a divisor decide on the largest quotients, but its grid has the steps of the
large ones: those below half a step would be 0. The reciprocals are large where the quotients are.
"""

from __future__ import annotations

from collections.abc import Container

from dovetail.ir import Graph
from dovetail_opset import is_op
from dovetail_opset.passes import RECIPROCAL, multiply_instead, reciprocals_of


def multiply_by_reciprocals(graph: Graph, stated: Container[str]) -> None:
    """Replace divisions by constants that differ from element to element by multiplications.

    Args:
        graph: Changed.
        stated: Names of tensors in the user's model with an encoding; such divisors stay.
    """
    for node in [each for each in graph.nodes if is_op(each, "ElementWiseDivide")]:
        divisor = node.inputs[1]
        found = reciprocals_of(divisor)
        if divisor is None or found is None or divisor.source in stated:
            continue
        if found.size and found.min() != found.max():  # a single value is a point of its grid
            multiply_instead(graph, node, found)


def divisor_of(name: str) -> str:
    """Return the name of the divisor whose reciprocals have a name; "" if it is none."""
    return name.removesuffix(RECIPROCAL) if name.endswith(RECIPROCAL) else ""
