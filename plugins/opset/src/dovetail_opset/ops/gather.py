"""Gathering by index."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import math

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import BatchAxis, Domain, In, Op, int32, uint32
from dovetail_opset._indices import (
    INDEX_TYPES,
    along,
    counted_from_start,
    linear,
    need_integers,
    need_within,
)
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import moved, need_axis


@PACKAGE.op("Gather")
class Gather(Op):
    """Slices of `data` along `axis`, by index; a negative index counts from the end.

    data: (*before, d, *after); indices: any shape, integers. Returns (*before, *indices, *after).
    An index out of range is an error.
    """

    inputs = (In("in[0]"), In("in[1]"))
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY

    axis = int32()

    def infer(self, data: Spec, indices: Spec, out: Spec | None) -> Spec:
        axis = need_axis(self.axis, len(data.shape))
        need_integers(indices)
        shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
        return moved(data, shape, out)

    def reference(self, data: Array, indices: Array) -> Array:
        wanted = counted_from_start(indices, data.shape[self.axis], self.axis)
        return np.take(data, wanted, axis=self.axis)


@PACKAGE.op("GatherElements")
class GatherElements(Op):
    """The element of `data` at each index along `axis`, at the same position on other axes.

    data: any shape; indices: the same rank, on other axes than `axis` not larger. Returns the shape
    of the indices. A negative index counts from the end; one out of range is an error.
    """

    inputs = (In("in[0]"), In("in[1]", INDEX_TYPES))
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    source = "spec/qnn_ops.md, GatherElements; ONNX GatherElements"

    axis = uint32(0)

    def infer(self, data: Spec, indices: Spec, out: Spec | None) -> Spec:
        need_within(indices, data, need_axis(self.axis, len(data.shape)))
        return moved(data, indices.shape, out)

    def reference(self, data: Array, indices: Array) -> Array:
        return data[along(indices, self.axis, data.shape[self.axis])]


@PACKAGE.op("GatherNd")
class GatherNd(Op):
    """Slices of `data`, selected by rows of indices into the dimensions after the batch.

    data: (*batch, *d, *slice); indices: (*batch, *rows, k), integers, k the number of dimensions d.
    Returns (*batch, *rows, *slice). The first batch_dims dimensions are the batch. A negative index
    counts from the end; one out of range is an error.
    """

    inputs = (In("in[0]"), In("in[1]"))
    domain = Domain.MOVE
    source = "spec/qnn_ops.md, GatherNd; ONNX GatherND"

    batch_dims = uint32(0)

    def infer(self, data: Spec, indices: Spec, out: Spec | None) -> Spec:
        need_integers(indices)
        batch = self.batch_dims
        if batch >= len(indices.shape) or batch > len(data.shape):
            raise OpError(
                f"batch_dims {batch} is too large for in[0] {data.shape} and in[1] {indices.shape}"
            )
        if data.shape[:batch] != indices.shape[:batch]:
            raise OpError(
                f"in[1] {indices.shape} differs from in[0] {data.shape} in the first {batch} "
                "dimensions, the batch"
            )
        depth = indices.shape[-1]
        if batch + depth > len(data.shape):
            raise OpError(
                f"in[1] {indices.shape} has rows of {depth} indices, but in[0] {data.shape} has "
                f"{len(data.shape) - batch} dimensions to index"
            )
        shape = (*indices.shape[:-1], *data.shape[batch + depth :])
        return moved(data, shape, out)

    def reference(self, data: Array, indices: Array, out: Spec) -> Array:
        batch, depth = self.batch_dims, indices.shape[-1]
        count, rows = math.prod(data.shape[:batch]), math.prod(indices.shape[batch:-1])
        inner, slices = data.shape[batch : batch + depth], data.shape[batch + depth :]
        size = math.prod(inner)
        # the batch and what is indexed as one axis, so that NumPy copies whole slices
        positions = linear(indices, inner, batch).reshape(count, rows)
        positions += size * np.arange(count)[:, np.newaxis]
        flat = data.reshape(count * size, *slices)
        return np.take(flat, positions.reshape(-1), axis=0).reshape(out.shape)
