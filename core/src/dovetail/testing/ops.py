"""The kit's own op package, for backends that say they run ops of any package."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op, OpPackage
from dovetail.testing.case import OpCase, typed

PACKAGE = OpPackage("dovetail.testing", "1.0.0")


@PACKAGE.op("Halve")
class Halve(Op):
    """x / 2, elementwise. Any shape, which stays."""

    inputs = (In("in[0]"),)
    source = "the conformance kit's own"

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array) -> Array:
        half: Array = x / x.dtype.type(2)
        return half


@PACKAGE.op("Fail")
class Fail(Op):
    """Raises: what a backend makes of an op that fails."""

    inputs = (In("in[0]"),)
    source = "the conformance kit's own"

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array) -> Array:
        raise ArithmeticError("this op always fails")


_X = np.linspace(-3, 4, 12, dtype=np.float32).reshape(3, 4)

# What backends compute in; each case is here in all of them, since some do not run floats.
_TYPES = (DType.FLOAT_16, DType.UFIXED_POINT_8, DType.SFIXED_POINT_16)
_HALVE = OpCase("Halve", (_X,), lambda x: x * np.float32(0.5), package=PACKAGE.name)
_FAIL = OpCase("Fail", (_X,), lambda x: x, package=PACKAGE.name)

HALVE: tuple[OpCase, ...] = (_HALVE, *typed(_HALVE, *_TYPES))
FAIL: tuple[OpCase, ...] = (_FAIL, *typed(_FAIL, *_TYPES))
