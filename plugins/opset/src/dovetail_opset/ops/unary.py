"""Elementwise functions of one tensor."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from typing import cast

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.ops import In, Op
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed


class _Unary(Op):
    inputs = (In("in[0]"),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return computed(x, x.shape, out)


@PACKAGE.op("ElementWiseAbs")
class ElementWiseAbs(_Unary):
    """|x|. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseAbs"

    def reference(self, x: Array) -> Array:
        return np.abs(x)


@PACKAGE.op("ElementWiseCeil")
class ElementWiseCeil(_Unary):
    """The least whole number not below x. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseCeil"

    def reference(self, x: Array) -> Array:
        return np.ceil(x)


@PACKAGE.op("ElementWiseCos")
class ElementWiseCos(_Unary):
    """The cosine of x in radians. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseCos"

    def reference(self, x: Array) -> Array:
        return np.cos(x)


@PACKAGE.op("ElementWiseExp")
class ElementWiseExp(_Unary):
    """e ** x. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseExp"

    def reference(self, x: Array) -> Array:
        return np.exp(x)


@PACKAGE.op("ElementWiseFloor")
class ElementWiseFloor(_Unary):
    """The greatest whole number not above x. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseFloor"

    def reference(self, x: Array) -> Array:
        return np.floor(x)


@PACKAGE.op("ElementWiseLog")
class ElementWiseLog(_Unary):
    """The natural logarithm; NaN below 0. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseLog"

    def reference(self, x: Array) -> Array:
        return np.log(x)


@PACKAGE.op("ElementWiseNeg")
class ElementWiseNeg(_Unary):
    """-x. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseNeg"

    def reference(self, x: Array) -> Array:
        return -x


@PACKAGE.op("ElementWiseRound")
class ElementWiseRound(_Unary):
    """The nearest whole number, the even one of two. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseRound"

    def reference(self, x: Array) -> Array:
        return np.rint(x)


@PACKAGE.op("ElementWiseRsqrt")
class ElementWiseRsqrt(_Unary):
    """1 / sqrt(x); NaN below 0. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseRsqrt"

    def reference(self, x: Array) -> Array:
        return cast(Array, 1 / np.sqrt(x))


@PACKAGE.op("ElementWiseSign")
class ElementWiseSign(_Unary):
    """-1, 0 or 1. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseSign"

    def reference(self, x: Array) -> Array:
        return np.sign(x)


@PACKAGE.op("ElementWiseSin")
class ElementWiseSin(_Unary):
    """The sine of x in radians. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseSin"

    def reference(self, x: Array) -> Array:
        return np.sin(x)


@PACKAGE.op("ElementWiseSquareRoot")
class ElementWiseSquareRoot(_Unary):
    """The square root; NaN below 0. Any shape, which stays."""

    source = "spec/qnn_ops.md, ElementWiseSquareRoot"

    def reference(self, x: Array) -> Array:
        return np.sqrt(x)
