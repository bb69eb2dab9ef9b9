"""Comparisons, logic, tests and selection: forms of elements of any types."""

from __future__ import annotations

from dovetail.ir import Spec
from dovetail.ops import NodeView
from dovetail_gpu.elements import Element
from dovetail_gpu.functions import name_of, single_op
from dovetail_gpu.kernels._broadcast import Form
from dovetail_gpu.layouts import element_of

COMPARISONS = {
    "ElementWiseEqual": "a0 == a1",
    "ElementWiseNotEqual": "a0 != a1",
    "ElementWiseGreater": "a0 > a1",
    "ElementWiseGreaterEqual": "a0 >= a1",
    "ElementWiseLess": "a0 < a1",
    "ElementWiseLessEqual": "a0 <= a1",
}
LOGIC = {
    "ElementWiseAnd": "(a0 != 0) & (a1 != 0)",
    "ElementWiseOr": "(a0 != 0) | (a1 != 0)",
    "ElementWiseXor": "(a0 != 0) != (a1 != 0)",
    "ElementWiseNot": "a0 == 0",
}
TESTS = ("IsInf", "IsNan")
SELECT = "ElementWiseSelect"
_NARROW = 2  # bytes of integers that a float holds


def logic_form(view: NodeView, ins: tuple[Spec, ...]) -> Form | None:
    """Return the form of a node; None for other functions, and for operands of several types."""
    name, elements = name_of(view), [element_of(spec) for spec in ins]
    if name == SELECT:
        return _select(elements, element_of(view.outs[0]))
    if name in COMPARISONS and not _are_alike(elements):
        return None
    condition = COMPARISONS.get(name) or LOGIC.get(name) or _test(view)
    if condition is None:
        return None
    line = f"v = ({condition}) ? (V)(1) : (V)(0);"
    if all(_fits_float(element) for element in elements):
        return Form(line, Element.FLOAT, converts=True)
    # a real result is that of a fixed-point tensor
    work = Element.FLOAT if element_of(view.outs[0]).is_float else Element.INT
    return Form(line, work, converts=False)


def _select(elements: list[Element], result: Element) -> Form | None:
    if not _are_alike([*elements[1:], result]):
        return None
    line = "v = a0 != 0 ? a1 : a2;"
    if all(_fits_float(element) for element in elements):
        return Form(line, Element.FLOAT, converts=True)
    return Form(line, Element.FLOAT if result.is_float else result, converts=False)


def _test(view: NodeView) -> str | None:
    name, op = name_of(view), single_op(view)
    if name == "IsNan":
        return "a0 != a0"
    if name != "IsInf":
        return None
    limits = {"INFINITY": op.detect_positive, "-INFINITY": op.detect_negative}
    conditions = [f"(a0 == (V)({limit}))" for limit, is_wanted in limits.items() if is_wanted]
    return " | ".join(conditions) or "(V)(0) != (V)(0)"


def _are_alike(elements: list[Element]) -> bool:
    """Return whether all elements are real numbers, or of one type of integers."""
    return all(each.is_float for each in elements) or len(set(elements)) == 1


def _fits_float(element: Element) -> bool:
    return element.is_float or element.nbytes <= _NARROW
