"""Indices of maximum, minimum and nonzero elements."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import math

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Shape, Spec
from dovetail.ops import BatchAxis, In, Op, Out, bool8, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import moved, need_axis
from dovetail_opset.ops.reduction import need_elements, reduced


class _ArgExtreme(Op):
    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.ANY

    axis = uint32()
    keep_dims = bool8(False)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        axis = need_axis(self.axis, len(x.shape))
        need_elements(x, (axis,))
        shape = reduced(x.shape, (axis,), self.keep_dims)
        if out is None:
            return Spec(DType.INT_32, shape)
        if not (out.dtype.is_int or out.dtype.is_float):
            raise OpError(f"out[0] holds indices; it cannot be {out.dtype.name}")
        return Spec(out.dtype, shape)

    def _kept(self, indices: Array) -> Array:
        return np.expand_dims(indices, self.axis) if self.keep_dims else indices


@PACKAGE.op("Argmax")
class Argmax(_ArgExtreme):
    """The index of the largest element along an axis, the first of equal ones.

    x: any shape but (), with elements along the axis, which stays as 1 with keep_dims. NaN is
    larger than all numbers. The result has the declared type, by default INT_32. The op definition
    does not say which of equal elements is meant.
    """

    def reference(self, x: Array) -> Array:
        return self._kept(np.asarray(np.argmax(x, axis=self.axis)))


@PACKAGE.op("Argmin")
class Argmin(_ArgExtreme):
    """The index of the smallest element along an axis, the first of equal ones.

    x: any shape but (), with elements along the axis, which stays as 1 with keep_dims. NaN is
    smaller than all numbers. The result has the declared type, by default INT_32. The op definition
    does not say which of equal elements is meant.
    """

    def reference(self, x: Array) -> Array:
        return self._kept(np.asarray(np.argmin(x, axis=self.axis)))


@PACKAGE.op("TopK")
class TopK(Op):
    """The k largest or smallest elements along the last axis, in order, and their indices.

    x: (..., n), k <= n. Returns (..., k) twice: the elements, and their indices, UINT_32 unless
    declared INT_32. Of equal elements the one with the larger index comes first. NaN is larger than
    all numbers.
    """

    inputs = (In("in[0]"),)
    outputs = (Out("out[0]"), Out("out[1]"))
    batch_axis = BatchAxis.ANY
    keeps = (0,)

    k = uint32()
    largest = bool8(True)

    def infer(self, x: Spec, values: Spec | None, indices: Spec | None) -> tuple[Spec, Spec]:
        if not x.shape:
            raise OpError("in[0] must have an axis to search along, but it is a scalar")
        if self.k > x.shape[-1]:
            raise OpError(f"k is {self.k}, but the last axis of in[0] {x.shape} is shorter")
        shape = (*x.shape[:-1], self.k)
        return moved(x, shape, values), _index_spec(shape, indices)

    def reference(self, x: Array) -> tuple[Array, Array]:
        if self.largest:
            # read from the end: equal elements too, so that the larger index comes first
            order = np.argsort(x, axis=-1, kind="stable")[..., ::-1]
        else:
            order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")
        indices = order[..., : self.k]
        return np.take_along_axis(x, indices, axis=-1), indices


@PACKAGE.op("NonZero")
class NonZero(Op):
    """The indices of all nonzero elements, in order, one row each.

    x: any shape. Returns (m, rank), UINT_32 or INT_32; both must be declared, m as the largest
    possible number of rows. The rows after the last index are 0. NaN is not zero.
    """

    inputs = (In("in[0]"),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        rank = len(x.shape)
        if out is None:
            raise OpError(
                f"the number of nonzero elements of in[0] {x.shape} is known only at run time; "
                f"declare the output as (m, {rank}), m the largest possible number, at most "
                f"{math.prod(x.shape)}"
            )
        if len(out.shape) != 2 or out.shape[1] != rank:
            raise OpError(f"out[0] must be (m, {rank}), indices into in[0], but is {out.shape}")
        return _index_spec(out.shape, out)

    def reference(self, x: Array, out: Spec) -> Array:
        indices, rows = np.argwhere(x), out.shape[0]
        if len(indices) > rows:
            raise OpError(
                f"in[0] has {len(indices)} nonzero elements, but the output is declared for {rows}"
            )
        result = np.zeros(out.shape, np.int64)
        result[: len(indices)] = indices
        return result


def _index_spec(shape: Shape, out: Spec | None) -> Spec:
    """Return the spec of indices: UINT_32 unless declared INT_32."""
    signed = out is not None and out.dtype is DType.INT_32
    return Spec(DType.INT_32 if signed else DType.UINT_32, shape)
