"""Operators that exporters spell out: the exact GELU, x / 2 * (1 + erf(x / sqrt(2))).

It is found here, before import, because there is no op for Erf alone. The tanh form is a different
function, up to 5e-4 away from it, and every part of it has an op: it is not fused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dovetail.ir.patterns import Pattern, Products, commutative, either, number, op, value
from dovetail_onnx._matching import Found, Replacement, SourceView, replace_matches
from dovetail_onnx._source import SourceGraph, SourceNode
from dovetail_onnx._tensors import TensorReader

# Constants may have been rounded to bfloat16, which keeps 8 bits.
_NEAR = 2.0**-8
_PRODUCTS = Products("Mul", "Div", _NEAR)
_GELU_OPSET = 20


def _plus(x: Pattern, summand: float) -> Pattern:
    known = number(summand, near=_NEAR)
    return either(commutative("Add", x, known), commutative("Sum", x, known))


_X = value("x")
_ERF = op("Erf", _PRODUCTS.scaled(_X, math.sqrt(0.5)))
_GELU = either(
    _PRODUCTS.scaled_of(_X, _plus(_ERF, 1), 0.5),
    _PRODUCTS.of(_X, _plus(_PRODUCTS.scaled(_ERF, 0.5), 0.5)),
)


def fuse_gelu(source: SourceGraph, reader: TensorReader) -> SourceGraph:
    """Return the graph with every GELU in small operators replaced by one Gelu node.

    The half and the root of two may multiply or divide, in any order and grouping, also inside:
    x * (0.5 + 0.5 * erf). Numbers may be computed from constants, as in the function that ONNX
    itself defines for Gelu. The scaled x and the erf must have no other readers.
    """
    return replace_matches(source, reader, _GELU, _gelu)


def _gelu(view: SourceView, match: Found) -> Sequence[SourceNode]:
    return Replacement(view, match, _GELU_OPSET).end("Gelu", match.values["x"])
