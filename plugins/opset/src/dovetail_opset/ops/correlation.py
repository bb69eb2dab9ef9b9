"""Correlation of two images."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import In, Op, Specs, int32, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, elements, need_rank, need_same_type


@PACKAGE.op("Correlation1D")
class Correlation1D(Op):
    """Correlation of each position of the left image with nearby ones of the right image.

    left, right: (n, h, w, c). Returns (n, h, w, 2 * displacement + 1): channel d holds the mean
    over c of left[..., w, :] * right[..., w + d - displacement + shift, :], 0 outside the right
    image.
    """

    inputs = (In("in[0]"), In("in[1]"))

    displacement = uint32()
    shift = int32()

    def infer(self, left: Spec, right: Spec, out: Spec | None) -> Spec:
        need_rank(left, 4, "in[0]")
        need_same_type(left, right)
        if left.shape != right.shape:
            raise OpError(
                f"in[0] and in[1] must have the same shape, but have {left.shape} and {right.shape}"
            )
        return computed(left, (*left.shape[:3], 2 * self.displacement + 1), out)

    def reference(self, left: Array, right: Array) -> Array:
        *lead, width, depth = left.shape
        sums = np.zeros((*lead, width, 2 * self.displacement + 1), np.result_type(left, right))
        for d in range(sums.shape[-1]):
            move = d - self.displacement + self.shift
            first, last = max(0, -move), min(width, width - move)
            if first < last:
                there = right[:, :, first + move : last + move]
                sums[:, :, first:last, d] = np.einsum(
                    "nhwc,nhwc->nhw", left[:, :, first:last], there
                )
        means: Array = sums / sums.dtype.type(max(depth, 1))
        return means

    def work(self, ins: Specs, outs: Specs) -> int:
        return elements(ins[0]) * (2 * self.displacement + 1)
