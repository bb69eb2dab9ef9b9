"""Matrix products."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Shape, Spec
from dovetail.ops import BatchAxis, Bias, Granularity, In, Op, Specs, Weight, bool8
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import broadcast, computed, elements, need_rank, need_shape, rows


@PACKAGE.op("FullyConnected")
class FullyConnected(Op):
    """x @ weight.T + bias, with the input reshaped to (batch, k).

    x: (k,), or any rank of at least 2 whose elements divide into rows of k; weight: (units, k);
    bias: (units,). Returns (units,) for rank 1, else (batch, units); with keep_dims the leading
    dimensions stay: (..., units).
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))
    quantization_roles: ClassVar = {1: Weight(0, Granularity.ROW, summed=1), 2: Bias(0, 1)}

    keep_dims = bool8(False)

    def infer(self, x: Spec, weight: Spec, bias: Spec | None, out: Spec | None) -> Spec:
        need_rank(weight, 2, "the weights in[1]")
        need_shape(bias, weight.shape[:1], "the bias in[2]")
        return computed(x, self._shape(x.shape, *weight.shape), out)

    def reference(self, x: Array, weight: Array, bias: Array | None) -> Array:
        shape = self._shape(x.shape, *weight.shape)
        rows = x.reshape(math.prod(shape[:-1]), weight.shape[1])
        result = (rows @ weight.T).reshape(shape)
        return result if bias is None else result + bias

    def work(self, ins: Specs, outs: Specs) -> int:
        return rows(outs[0]) * elements(ins[1])

    def _shape(self, x: Shape, units: int, k: int) -> Shape:
        if not x:
            raise OpError("in[0] must have rank 1 or more, but it is a scalar")
        if len(x) == 1 or self.keep_dims:
            if x[-1] != k:
                raise OpError(f"rows of in[0] {x} have {x[-1]} elements, but the weights take {k}")
            return (*x[:-1], units)
        count = math.prod(x)
        if k == 0 or count % k:
            if count == k == x[-1]:
                return (math.prod(x[:-1]), units)
            raise OpError(f"the {count} elements of in[0] {x} do not divide into rows of {k}")
        return (count // k, units)


@PACKAGE.op("MatMul")
class MatMul(Op):
    """Matrix product over the last two dimensions, plus a bias; other dimensions broadcast.

    a: (..., m, k); b: (..., k, n); bias: (n,); transpose_in0 and transpose_in1 swap the last two
    dimensions of a or b. Returns (..., m, n).
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))
    quantization_roles: ClassVar = {
        0: Weight(),
        1: Weight(-1, Granularity.ROW, transposed_by="transpose_in1", summed=-2),
        2: Bias(0, 1),
    }
    batch_axis = BatchAxis.ANY

    transpose_in0 = bool8(False)
    transpose_in1 = bool8(False)

    def infer(self, a: Spec, b: Spec, bias: Spec | None, out: Spec | None) -> Spec:
        if min(len(a.shape), len(b.shape)) < 2:
            raise OpError(f"the inputs must have rank 2 or more: {a.shape} and {b.shape}")
        m, k = a.shape[:-3:-1] if self.transpose_in0 else a.shape[-2:]
        k1, n = b.shape[:-3:-1] if self.transpose_in1 else b.shape[-2:]
        if k != k1:
            raise OpError(f"{a.shape} times {b.shape} multiplies rows of {k} with columns of {k1}")
        need_shape(bias, (n,), "the bias in[2]")
        return computed(a, (*broadcast(a.shape[:-2], b.shape[:-2]), m, n), out)

    def reference(self, a: Array, b: Array, bias: Array | None) -> Array:
        left = a.swapaxes(-1, -2) if self.transpose_in0 else a
        right = b.swapaxes(-1, -2) if self.transpose_in1 else b
        result: Array = np.matmul(left, right)
        return result if bias is None else result + bias

    def work(self, ins: Specs, outs: Specs) -> int:
        left = ins[0]
        if left is None:
            return 0
        return elements(outs[0]) * left.shape[-2 if self.transpose_in0 else -1]
