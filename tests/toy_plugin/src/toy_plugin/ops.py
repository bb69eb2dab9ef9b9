"""The op package `toy.ops`."""

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import Domain, In, Op, OpPackage, Out, float32, last_axis, uint32

PACKAGE = OpPackage("toy.ops", "1.2.3")

_FLOAT = (DType.FLOAT_32,)


@PACKAGE.op("SoftClip")
class SoftClip(Op):
    """limit * tanh(x / limit), elementwise: nearly x near zero, never beyond the limit.

    x: (...), float. Gives the same shape.
    """

    inputs = (In("in[0]", _FLOAT),)
    outputs = (Out("out[0]", _FLOAT),)
    source = "the tests' own"

    limit = float32(default=1.0)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if self.limit <= 0:
            raise OpError(f"the limit is {self.limit}; it must be positive")
        return x

    def reference(self, x: Array) -> Array:
        return self.limit * np.tanh(x / self.limit)


@PACKAGE.op("Mirror")
class Mirror(Op):
    """The elements in reverse order along one axis.

    x: (...), of rank 1 at least. Gives the same shape.
    """

    inputs = (In("in[0]"),)
    outputs = (Out("out[0]"),)
    domain = Domain.MOVE
    keeps_all = True
    source = "the tests' own"

    axis = uint32(default=last_axis)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if self.axis >= len(x.shape):
            raise OpError(f"axis {self.axis} does not exist; the rank is {len(x.shape)}")
        return x

    def reference(self, x: Array) -> Array:
        return np.flip(x, self.axis)
