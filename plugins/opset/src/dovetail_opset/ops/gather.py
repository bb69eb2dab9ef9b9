"""Gathering by index."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import Domain, In, Op, int32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import moved, need_axis


@PACKAGE.op("Gather")
class Gather(Op):
    """Slices of `data` along `axis`, by index; a negative index counts from the end.

    data: (*before, d, *after); indices: any shape, integers. Gives (*before, *indices, *after).
    """

    inputs = (In("in[0]"), In("in[1]"))
    domain = Domain.MOVE
    source = "spec/qnn_ops.md, Gather"

    axis = int32()

    def infer(self, data: Spec, indices: Spec, out: Spec | None) -> Spec:
        axis = need_axis(self.axis, len(data.shape))
        if indices.dtype.is_float or indices.dtype.is_fixed_point:
            raise OpError(f"indices must be integers, but in[1] is {indices.dtype.name}")
        shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
        return moved(data, shape, out)

    def reference(self, data: Array, indices: Array) -> Array:
        wanted, extent = indices.astype(np.int64), data.shape[self.axis]
        wrong = wanted[(wanted < -extent) | (wanted >= extent)]
        if wrong.size:
            raise OpError(
                f"index {wrong[0]} is out of range on axis {self.axis}, which has {extent}"
            )
        return np.take(data, wanted, axis=self.axis)
