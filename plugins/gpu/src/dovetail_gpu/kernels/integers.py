"""Elementwise functions of integers as lines of OpenCL C.

`v` has the type of the operands, V. U is an unsigned type of at least 32 bits and the width of V:
sums and products are computed in it, where an overflow wraps around. IS_SIGNED is 0 or 1.
"""

from __future__ import annotations

import math

import numpy as np

from dovetail.ops import NodeView
from dovetail_gpu.elements import Element
from dovetail_gpu.functions import name_of, single_op
from dovetail_gpu.kernels._broadcast import Form

_CLIPPED = "v = {0} < (V)({low}) ? (V)({low}) : {0}; v = v > (V)({high}) ? (V)({high}) : v;"
_MINUS = "(V)(0 - (U){0})"
_IS_MINUS_ONE = "(IS_SIGNED && {1} == (V)(-1))"
# division by 0 is 0; the negative of the minimum wraps around
_QUOTIENT = f"{{1}} == 0 ? (V)0 : {_IS_MINUS_ONE} ? {_MINUS} : (V)({{0}} / {{1}})"
_REST = f"({{1}} == 0 || {_IS_MINUS_ONE}) ? (V)0 : (V)({{0}} % {{1}})"
_POWER = (
    "{{ U base = (U){0}; U power = 1;"
    "for (U left = {1} > 0 ? (U){1} : 0; left; left >>= 1) {{ if (left & 1) power *= base;"
    "base *= base; }}"
    "v = (V)power;"
    "if (IS_SIGNED && {1} < 0) v = {0} == 1 ? 1 : {0} == (V)(-1) ? (({1} & 1) ? -1 : 1) : 0; }}"
)

UNARY = {
    "ElementWiseAbs": f"v = {{0}} > 0 ? {{0}} : {_MINUS};",
    "ElementWiseCeil": "v = {0};",
    "ElementWiseFloor": "v = {0};",
    "ElementWiseNeg": f"v = {_MINUS};",
    "ElementWiseNot": "v = {0} == 0;",
    "ElementWiseRound": "v = {0};",
    "ElementWiseSign": "v = {0} > 0 ? 1 : {0} == 0 ? 0 : (V)(-1);",
    "Reciprocal": "v = {0} == 1 || (IS_SIGNED && {0} == (V)(-1)) ? {0} : 0;",
    "Relu": "v = {0} > 0 ? {0} : 0;",
}
CLIPS = {"Relu1": (-1.0, 1.0), "Relu6": (0.0, 6.0), "ReluMinMax": None}
BINARY = {
    "ElementWiseAdd": "v = (V)((U){0} + (U){1});",
    "ElementWiseDivide": f"v = {_QUOTIENT};",
    "ElementWiseFloorDiv": (
        f"v = {_QUOTIENT}; if ({{1}} != 0 && !{_IS_MINUS_ONE} && {{0}} % {{1}} != 0 && "
        "({0} < 0) != ({1} < 0)) v -= 1;"
    ),
    "ElementWiseFmod": f"v = {_REST};",
    "ElementWiseMaximum": "v = {0} > {1} ? {0} : {1};",
    "ElementWiseMinimum": "v = {0} < {1} ? {0} : {1};",
    "ElementWiseMod": f"v = {_REST}; if (v != 0 && (v < 0) != ({{1}} < 0)) v += {{1}};",
    "ElementWiseMultiply": "v = (V)((U){0} * (U){1});",
    "ElementWisePower": _POWER,
    "ElementWiseSquaredDifference": "{{ const U d = (U){0} - (U){1}; v = (V)(d * d); }}",
    "ElementWiseSubtract": "v = (V)((U){0} - (U){1});",
    "Prelu": "v = {0} >= 0 ? {0} : (V)((U){0} * (U){1});",
}


def integer_form(view: NodeView, element: Element) -> Form | None:
    """Return the form of a node whose tensors have one type of integers; None for others."""
    name = name_of(view)
    line = UNARY.get(name) or BINARY.get(name)
    if line is not None:
        text = line.format("a0", "a1")
    elif name in CLIPS:
        low, high = _limits(view, element)
        text = _CLIPPED.format("a0", low=low, high=high)
    else:
        return None
    return Form(text, element, converts=False, lines=_type_lines(element))


def _type_lines(element: Element) -> str:
    """Return the definitions that the lines need for a type."""
    wide = "ulong" if element.nbytes > Element.INT.nbytes else "uint"
    is_signed = int(element.storage.kind == "i")
    return f"#define U {wide}\n#define IS_SIGNED {is_signed}\n"


def _limits(view: NodeView, element: Element) -> tuple[str, str]:
    """Return the integers between the limits of a clip that the type has."""
    op, info = single_op(view), np.iinfo(element.storage)
    given = CLIPS[name_of(view)] or (op.min_value, op.max_value)
    least, most = int(info.min), int(info.max)
    low, high = (min(max(limit, least), most) for limit in given)
    return _literal(math.ceil(low), least), _literal(math.floor(high), least)


def _literal(value: int, least: int) -> str:
    """Return an integer in OpenCL C; the minimum of a type has no literal."""
    suffix = "" if least else "UL"
    return f"({value + 1}L - 1)" if value == least and least else f"{value}{suffix}"
