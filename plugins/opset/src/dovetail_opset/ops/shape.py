"""Shapes as values."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import Domain, In, Op, Out, scalar, uint32
from dovetail_opset._constants import CONSTANT_TYPES, need_storable, stored_constant
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import first_rank, ints, need_rank


@PACKAGE.op("Shape")
class Shape(Op):
    """The sizes of dimensions `start` to before `end`. Any shape."""

    inputs = (In("in[0]"),)
    outputs = (Out("out[0]", (DType.UINT_32,)),)
    domain = Domain.STORED

    start = uint32(0)
    end = uint32(first_rank)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if not self.start <= self.end <= len(x.shape):
            raise OpError(
                f"start {self.start} and end {self.end} select no dimensions of in[0] {x.shape}"
            )
        return Spec(DType.UINT_32, (self.end - self.start,))

    def reference(self, x: Array) -> Array:
        return np.array(x.shape[self.start : self.end], np.uint32)


@PACKAGE.op("ConstantOfShape")
class ConstantOfShape(Op):
    """A tensor filled with `value`.

    shape: (rank,), whose values must be the sizes that the output declares, since shapes are
    static. For a fixed-point output an integer value is a stored value and a float a real one.
    """

    inputs = (In("in[0]", (DType.UINT_32,)),)
    domain = Domain.STORED

    value = scalar(dtypes=CONSTANT_TYPES)

    def infer(self, shape: Spec, out: Spec | None) -> Spec:
        need_rank(shape, 1, "in[0]")
        if out is None:
            raise OpError("the output must declare its shape and type")
        if shape.shape != (len(out.shape),):
            raise OpError(f"in[0] has {shape.shape[0]} sizes for the output {out.shape}")
        need_storable(self.value, out, "value")
        return out

    def reference(self, shape: Array, out: Spec) -> Array:
        if ints(shape) != out.shape:
            raise OpError(f"in[0] holds the shape {ints(shape)}, but the output has {out.shape}")
        return np.full(out.shape, stored_constant(self.value, out))
