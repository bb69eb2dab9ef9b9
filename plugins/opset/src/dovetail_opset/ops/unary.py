"""Elementwise functions of one tensor."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import In, Op, bool8, choice
from dovetail_opset._functions import register_functions
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_numbers, truth
from dovetail_opset._variants import Variants


class _Unary(Op):
    inputs = (In("in[0]"),)
    is_elementwise = True
    function: ClassVar[Callable[[Array], Array]]

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_numbers(x)
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        return type(self).function(x)


class _NeverNegative(_Unary):
    value_range = (0.0, math.inf)


def rounded(x: Array) -> Array:
    """Return the nearest integers, halves to even."""
    return x if x.dtype.kind in "iu" else np.rint(x)  # which would make floats of integers


register_functions(
    _Unary,
    "Returns the shape of x.",
    ("ElementWiseAsin", np.arcsin, "The arc sine in radians; NaN outside [-1, 1]."),
    ("ElementWiseAtan", np.arctan, "The arc tangent in radians."),
    ("ElementWiseCos", np.cos, "The cosine of x in radians."),
    ("ElementWiseLog", np.log, "The natural logarithm; NaN below 0."),
    ("ElementWiseRsqrt", lambda x: 1 / np.sqrt(x), "1 / sqrt(x); NaN below 0."),
    ("ElementWiseSin", np.sin, "The sine of x in radians."),
    (
        "Logit",
        lambda x: np.log(x / (1 - x)),
        "log(x / (1 - x)); infinite at 0 and 1, NaN outside [0, 1].",
    ),
)
register_functions(
    _Unary,
    "Returns the shape of x.",
    ("ElementWiseCeil", np.ceil, "The smallest integer not below x."),
    ("ElementWiseFloor", np.floor, "The largest integer not above x."),
    ("ElementWiseRound", rounded, "The nearest integer, halves to even."),
    ("ElementWiseSign", np.sign, "-1, 0 or 1; NaN for NaN."),
    rounds=True,
)
register_functions(
    _Unary,
    "Returns the shape of x.",
    ("ElementWiseNeg", np.negative, "-x."),
    keeps_whole=True,
)
register_functions(
    _NeverNegative,
    "Returns the shape of x.",
    ("ElementWiseAbs", np.abs, "|x|."),
    keeps_whole=True,
)
register_functions(
    _NeverNegative,
    "Returns the shape of x.",
    ("ElementWiseExp", np.exp, "e ** x."),
    ("ElementWiseSquareRoot", np.sqrt, "The square root; NaN below 0."),
)


@PACKAGE.op("ElementWiseNot")
class ElementWiseNot(Op):
    """1 where x is 0, else 0, also for NaN; of the type of x. Returns the shape of x."""

    inputs = (In("in[0]"),)
    is_elementwise = True

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        return np.logical_not(x)


class _Test(Op):
    """Base of the tests that matter only for floats; fixed-point values are always finite."""

    inputs = (In("in[0]"),)
    is_elementwise = True

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


def _single(operation: Unary) -> Op:
    """Return the single op of an operation."""
    if operation is Unary.RECIPROCAL:
        return Reciprocal()
    word = "SquareRoot" if operation is Unary.SQRT else operation.name.title()
    return PACKAGE.schemas[f"ElementWise{word}"].op()


UNARIES = {operation: _single(operation) for operation in Unary}


@PACKAGE.op("ElementWiseUnary")
class ElementWiseUnary(Variants):
    """A function of one tensor, selected by `operation`. Returns the shape of x.

    Each operation behaves as the single op of its name; RECIPROCAL is 1 / x.
    """

    inputs = (In("in[0]"),)

    operation = choice(Unary)

    @property
    def single(self) -> Op:
        """The single op with the same behaviour."""
        return UNARIES[self.operation]

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        found: Spec = self.single.infer(x, out)
        return found

    def reference(self, x: Array) -> Array:
        found: Array = self.single.reference(x)
        return found
