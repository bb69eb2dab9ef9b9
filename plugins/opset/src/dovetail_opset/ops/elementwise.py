"""Elementwise functions of two tensors, which broadcast."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import In, Op
from dovetail_opset._functions import register_functions
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import broadcast, computed, need_numbers, need_same_type


class _Binary(Op):
    inputs = (In("in[0]"), In("in[1]"))
    is_elementwise = True
    function: ClassVar[Callable[[Array, Array], Array]]

    def infer(self, a: Spec, b: Spec, out: Spec | None) -> Spec:
        need_same_type(a, b)
        return computed(a, broadcast(a.shape, b.shape), out)

    def reference(self, a: Array, b: Array) -> Array:
        return type(self).function(a, b)


class _Arithmetic(_Binary):
    def infer(self, a: Spec, b: Spec, out: Spec | None) -> Spec:
        need_numbers(a, b)
        found: Spec = super().infer(a, b, out)
        return found


register_functions(
    _Binary,
    "Shapes broadcast.",
    ("ElementWiseMaximum", np.maximum, "The larger of a and b; NaN if one is NaN."),
    ("ElementWiseMinimum", np.minimum, "The smaller of a and b; NaN if one is NaN."),
    keeps_whole=True,
)
register_functions(
    _Arithmetic,
    "Shapes broadcast.",
    ("ElementWiseAdd", np.add, "a + b."),
    ("ElementWiseSubtract", np.subtract, "a - b."),
    ("ElementWiseMultiply", np.multiply, "a * b."),
    ("ElementWiseSquaredDifference", lambda a, b: np.square(a - b), "(a - b) ** 2."),
    keeps_whole=True,
)


@PACKAGE.op("ElementWiseDivide")
class ElementWiseDivide(_Arithmetic):
    """a / b; integers truncate, and a division by 0 is 0. Shapes broadcast."""

    def reference(self, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return cast(Array, a / b)
        floors, left = np.divmod(a, b)
        # a remainder under a negative quotient: the floor is one too low
        return cast(Array, floors + ((left != 0) & ((a < 0) != (b < 0))).astype(a.dtype))


@PACKAGE.op("ElementWiseFloorDiv")
class ElementWiseFloorDiv(_Arithmetic):
    """floor(a / b); for integers a division by 0 is 0. Shapes broadcast.

    The floor is taken of the rounded quotient: 1 / 0.1 is 10, although 0.1 as float32 is larger.
    """

    rounds = True

    def reference(self, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return np.floor(a / b)
        return np.floor_divide(a, b)


@PACKAGE.op("ElementWiseMod")
class ElementWiseMod(_Arithmetic):
    """Remainder of a / b with the sign of b; 0 for b = 0.

    a, b: integers of one type, not fixed-point. Shapes broadcast.
    """

    def infer(self, a: Spec, b: Spec, out: Spec | None) -> Spec:
        found: Spec = super().infer(a, b, out)
        if not a.dtype.is_int:
            raise OpError(
                f"in[0] must be an integer type, but is {a.dtype.name}",
                hint="use ElementWiseFmod for other types; its result has the sign of in[0]",
            )
        return found

    def reference(self, a: Array, b: Array) -> Array:
        return np.remainder(a, b)


@PACKAGE.op("ElementWiseFmod")
class ElementWiseFmod(_Arithmetic):
    """Remainder of a / b with the sign of a, as `fmod` of C.

    For b = 0 it is NaN for floats and 0 for integers. Shapes broadcast.
    """

    keeps_whole = True

    def reference(self, a: Array, b: Array) -> Array:
        return np.fmod(a, b)


@PACKAGE.op("ElementWisePower")
class ElementWisePower(_Arithmetic):
    """a ** b; a negative power of an integer truncates. Shapes broadcast.

    Fixed-point numbers may have exponents of any type of numbers, other inputs those of their type.
    """

    def infer(self, a: Spec, b: Spec, out: Spec | None) -> Spec:
        if not a.dtype.is_fixed_point:
            found: Spec = super().infer(a, b, out)
            return found
        need_numbers(a, b)
        return computed(a, broadcast(a.shape, b.shape), out)

    def reference(self, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return np.power(a, b)
        powers = np.power(a, np.maximum(b, 0))
        # an inverse is whole only for 1 and -1, which are their own up to the sign
        own = np.power(a, np.abs(b) % 2)
        return np.where(b >= 0, powers, np.where(np.abs(a) == 1, own, a.dtype.type(0)))
