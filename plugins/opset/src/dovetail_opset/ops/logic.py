"""Comparisons, logic and selection between two tensors, all with broadcasting.

Comparisons and logic return BOOL_8, unless the graph declares an integer or fixed-point type, in
which true is the number 1.
"""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import In, Op
from dovetail_opset._functions import register_functions
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import broadcast, moved, need_same_type, truth


class _Logic(Op):
    inputs = (In("in[0]"), In("in[1]"))
    is_elementwise = True
    function: ClassVar[Callable[[Array, Array], Array]]

    def infer(self, a: Spec, b: Spec, out: Spec | None) -> Spec:
        return truth(broadcast(a.shape, b.shape), out)

    def reference(self, a: Array, b: Array) -> Array:
        return type(self).function(a, b)


class _Comparison(_Logic):
    def infer(self, a: Spec, b: Spec, out: Spec | None) -> Spec:
        need_same_type(a, b)
        found: Spec = super().infer(a, b, out)
        return found


register_functions(
    _Comparison,
    "Shapes broadcast.",
    ("ElementWiseEqual", np.equal, "a = b; NaN equals nothing."),
    ("ElementWiseNotEqual", np.not_equal, "a != b; NaN differs from everything."),
    ("ElementWiseGreater", np.greater, "a > b; false for NaN."),
    ("ElementWiseGreaterEqual", np.greater_equal, "a >= b; false for NaN."),
    ("ElementWiseLess", np.less, "a < b; false for NaN."),
    ("ElementWiseLessEqual", np.less_equal, "a <= b; false for NaN."),
)
register_functions(
    _Logic,
    "Shapes broadcast.",
    ("ElementWiseAnd", np.logical_and, "Logical and; any number but 0 is true."),
    ("ElementWiseOr", np.logical_or, "Logical or; any number but 0 is true."),
    ("ElementWiseXor", np.logical_xor, "Logical exclusive or; any number but 0 is true."),
)


@PACKAGE.op("ElementWiseSelect")
class ElementWiseSelect(Op):
    """in[1] where the condition in[0] is true, not 0, else in[2]. All three broadcast.

    in[1] and in[2] have the same type, any; fixed-point types may differ. The condition is read as
    a real value, so the op does not only move elements.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]"))
    is_elementwise = True
    keeps_whole = True

    def infer(self, condition: Spec, a: Spec, b: Spec, out: Spec | None) -> Spec:
        if a.dtype is not b.dtype and not (a.dtype.is_fixed_point and b.dtype.is_fixed_point):
            raise OpError(
                f"in[1] is {a.dtype.name}, but in[2] is {b.dtype.name}; they must be equal"
            )
        found = moved(a, broadcast(condition.shape, a.shape, b.shape), out)
        if out is None and (a.dtype, a.encoding) != (b.dtype, b.encoding):
            return Spec(found.dtype, found.shape)  # there is no one encoding to move with them
        return found

    def reference(self, condition: Array, a: Array, b: Array) -> Array:
        return np.where(condition != 0, a, b)
