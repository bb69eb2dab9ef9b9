"""The kit's op package, for backends with the capability `op_packages`."""

# ruff: noqa: D102 - the op's docstring describes `infer` and `reference`

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op, OpPackage
from dovetail.testing.case import OpCase, typed

PACKAGE = OpPackage("dovetail.testing", "1.0.0")


@PACKAGE.op("Halve")
class Halve(Op):
    """x / 2, elementwise. Any shape; the output has the same."""

    inputs = (In("in[0]"),)
    source = "the conformance kit's own"

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array) -> Array:
        half: Array = x / x.dtype.type(2)
        return half


@PACKAGE.op("Fail")
class Fail(Op):
    """Raises, to show how a backend reports an op that fails."""

    inputs = (In("in[0]"),)
    source = "the conformance kit's own"

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array) -> Array:
        raise ArithmeticError("this op always fails")


_X = np.linspace(-3, 4, 12, dtype=np.float32).reshape(3, 4)

# The types that backends compute in; each case has all of them, since some support no floats.
_TYPES = (DType.FLOAT_16, DType.UFIXED_POINT_8, DType.SFIXED_POINT_16)
_HALVE = OpCase("Halve", (_X,), lambda x: x * np.float32(0.5), package=PACKAGE.name)
_FAIL = OpCase("Fail", (_X,), lambda x: x, package=PACKAGE.name)

HALVE: tuple[OpCase, ...] = (_HALVE, *typed(_HALVE, *_TYPES))
FAIL: tuple[OpCase, ...] = (_FAIL, *typed(_FAIL, *_TYPES))
