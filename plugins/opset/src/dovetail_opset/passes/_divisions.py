"""Quotients and remainders written out, for backends that only have divisions."""

from __future__ import annotations

from dovetail.ir import DType, Graph, Node
from dovetail_opset.passes._gru import Step
from dovetail_opset.passes._rewrite import is_any_float, is_constant


def divides_integers(node: Node) -> bool:
    """Return whether a node divides 32-bit integers by positive constants."""
    divisor = node.inputs[1]
    if divisor is None or divisor.dtype is not DType.INT_32 or not is_constant(divisor):
        return False
    return bool((divisor.values() > 0).all())


def write_out_mod(graph: Graph, node: Node, step: Step) -> None:
    """Add the nodes of a remainder of integers with the sign of the divisor."""
    # the quotient is truncated, so that the rest has the sign of x
    x, divisor = node.inputs
    whole = step("ElementWiseMultiply", step("ElementWiseDivide", x, divisor), divisor)
    rest = step("ElementWiseSubtract", x, whole)
    raised = step("ElementWiseAdd", rest, divisor)
    is_below = step("ElementWiseLess", rest, 0.0)
    step("ElementWiseSelect", is_below, raised, rest, outputs=node.outputs[0])


def write_out_fmod(graph: Graph, node: Node, step: Step) -> None:
    """Add the nodes of a remainder with the sign of what is divided."""
    x, divisor = node.inputs
    whole = step("ElementWiseDivide", x, divisor)
    if is_any_float(whole):  # quotients of integers are truncated
        is_below = step("ElementWiseLess", whole, 0.0)
        parts = step("ElementWiseCeil", whole), step("ElementWiseFloor", whole)
        whole = step("ElementWiseSelect", is_below, *parts)
    product = step("ElementWiseMultiply", whole, divisor)
    step("ElementWiseSubtract", x, product, outputs=node.outputs[0])


def write_out_floor_div(graph: Graph, node: Node, step: Step) -> None:
    """Add the nodes of a quotient of integers that is rounded down."""
    # of a negative rest, the truncated quotient is 1 too high
    x, divisor = node.inputs
    whole = step("ElementWiseDivide", x, divisor)
    rest = step("ElementWiseSubtract", x, step("ElementWiseMultiply", whole, divisor))
    is_below = step("ElementWiseLess", rest, 0.0)
    lowered = step("ElementWiseSubtract", whole, 1.0)
    step("ElementWiseSelect", is_below, lowered, whole, outputs=node.outputs[0])
