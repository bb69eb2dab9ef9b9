"""Elementwise functions of one tensor."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
from typing import cast

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import In, Op, bool8, choice
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_numbers, truth


class _Unary(Op):
    inputs = (In("in[0]"),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_numbers(x)
        return computed(x, x.shape, out)


@PACKAGE.op("ElementWiseAbs")
class ElementWiseAbs(_Unary):
    """|x|. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.abs(x)


@PACKAGE.op("ElementWiseAsin")
class ElementWiseAsin(_Unary):
    """The arc sine in radians; NaN outside [-1, 1]. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.arcsin(x)


@PACKAGE.op("ElementWiseAtan")
class ElementWiseAtan(_Unary):
    """The arc tangent in radians. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.arctan(x)


@PACKAGE.op("ElementWiseCeil")
class ElementWiseCeil(_Unary):
    """The smallest integer not below x. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.ceil(x)


@PACKAGE.op("ElementWiseCos")
class ElementWiseCos(_Unary):
    """The cosine of x in radians. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.cos(x)


@PACKAGE.op("ElementWiseExp")
class ElementWiseExp(_Unary):
    """e ** x. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.exp(x)


@PACKAGE.op("ElementWiseFloor")
class ElementWiseFloor(_Unary):
    """The largest integer not above x. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.floor(x)


@PACKAGE.op("ElementWiseLog")
class ElementWiseLog(_Unary):
    """The natural logarithm; NaN below 0. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.log(x)


@PACKAGE.op("ElementWiseNeg")
class ElementWiseNeg(_Unary):
    """-x. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return -x


@PACKAGE.op("ElementWiseNot")
class ElementWiseNot(_Unary):
    """1 where x is 0, else 0, also for NaN; of the type of x. Returns the shape of x."""

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        return np.logical_not(x)


@PACKAGE.op("ElementWiseRound")
class ElementWiseRound(_Unary):
    """The nearest integer, halves to even. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return x if x.dtype.kind in "iu" else np.rint(x)  # which would make floats of integers


@PACKAGE.op("ElementWiseRsqrt")
class ElementWiseRsqrt(_Unary):
    """1 / sqrt(x); NaN below 0. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return cast(Array, 1 / np.sqrt(x))


@PACKAGE.op("ElementWiseSign")
class ElementWiseSign(_Unary):
    """-1, 0 or 1; NaN for NaN. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.sign(x)


@PACKAGE.op("ElementWiseSin")
class ElementWiseSin(_Unary):
    """The sine of x in radians. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.sin(x)


@PACKAGE.op("ElementWiseSquareRoot")
class ElementWiseSquareRoot(_Unary):
    """The square root; NaN below 0. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.sqrt(x)


@PACKAGE.op("Logit")
class Logit(_Unary):
    """log(x / (1 - x)); infinite at 0 and 1, NaN outside [0, 1]. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        odds: Array = x / (1 - x)
        return np.log(odds)


class _Test(Op):
    """Base of the tests that matter only for floats; fixed-point values are always finite."""

    inputs = (In("in[0]"),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if not (x.dtype.is_float or x.dtype.is_fixed_point):
            raise OpError(
                f"in[0] is {x.dtype.name}; it must be a float type",
                hint="every integer is a finite number; remove the node",
            )
        return truth(x.shape, out)


@PACKAGE.op("IsInf")
class IsInf(_Test):
    """x is infinite, with one of the signs to detect, by default both. Returns the shape of x."""

    detect_negative = bool8(True)
    detect_positive = bool8(True)

    def reference(self, x: Array) -> Array:
        if self.detect_negative and self.detect_positive:
            return np.isinf(x)
        if self.detect_negative:
            return np.isneginf(x)
        return np.isposinf(x) if self.detect_positive else np.zeros(x.shape, np.bool_)


@PACKAGE.op("IsNan")
class IsNan(_Test):
    """x is NaN. Returns the shape of x."""

    def reference(self, x: Array) -> Array:
        return np.isnan(x)


class Reciprocal(_Unary):
    """1 / x; integers truncate, and 0 stays 0. An operation of ElementWiseUnary, not an op."""

    def reference(self, x: Array) -> Array:
        if x.dtype.kind == "f":
            return np.reciprocal(x)
        # an inverse is whole only for 1 and -1
        return np.where(np.abs(x) == 1, x, x.dtype.type(0))


class Unary(enum.IntEnum):
    """The functions of ElementWiseUnary."""

    ABS = 0
    ASIN = 1
    ATAN = 2
    CEIL = 3
    COS = 4
    EXP = 5
    FLOOR = 6
    LOG = 7
    NEG = 8
    NOT = 9
    RECIPROCAL = 10
    ROUND = 11
    RSQRT = 12
    SIGN = 13
    SIN = 14
    SQRT = 15


_SINGLE: dict[Unary, Op] = {
    Unary.ABS: ElementWiseAbs(),
    Unary.ASIN: ElementWiseAsin(),
    Unary.ATAN: ElementWiseAtan(),
    Unary.CEIL: ElementWiseCeil(),
    Unary.COS: ElementWiseCos(),
    Unary.EXP: ElementWiseExp(),
    Unary.FLOOR: ElementWiseFloor(),
    Unary.LOG: ElementWiseLog(),
    Unary.NEG: ElementWiseNeg(),
    Unary.NOT: ElementWiseNot(),
    Unary.RECIPROCAL: Reciprocal(),
    Unary.ROUND: ElementWiseRound(),
    Unary.RSQRT: ElementWiseRsqrt(),
    Unary.SIGN: ElementWiseSign(),
    Unary.SIN: ElementWiseSin(),
    Unary.SQRT: ElementWiseSquareRoot(),
}


@PACKAGE.op("ElementWiseUnary")
class ElementWiseUnary(Op):
    """A function of one tensor, selected by `operation`. Returns the shape of x.

    Each operation behaves as the single op of its name; RECIPROCAL is 1 / x.
    """

    inputs = (In("in[0]"),)

    operation = choice(Unary)

    @property
    def single(self) -> Op:
        """The single op with the same behaviour."""
        return _SINGLE[self.operation]

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        found: Spec = self.single.infer(x, out)
        return found

    def reference(self, x: Array) -> Array:
        found: Array = self.single.reference(x)
        return found
