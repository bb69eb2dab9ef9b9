"""Local response normalization."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import BatchAxis, In, Op, choice, float32, int32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_float


class LrnRegion(enum.IntEnum):
    """Axes along which Lrn takes neighbors."""

    ACROSS_CHANNEL = 0
    WITHIN_CHANNEL = 1


@PACKAGE.op("Lrn")
class Lrn(Op):
    """x / (bias + alpha * s) ** beta, s the sum of squares of an element and its neighbors.

    x: (..., c), also of the result. Neighbors are at most `radius` away along the last axis or,
    with WITHIN_CHANNEL, along each axis of (n, ..., c) between the first and the last. alpha is
    used unchanged: ONNX and Caffe divide theirs by the number of neighbors.
    """

    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.FIRST
    source = "spec/qnn_ops.md, Lrn; Krizhevsky et al. 2012, ImageNet Classification"

    alpha = float32(1.0)
    beta = float32(0.5)
    bias = float32(1.0)
    radius = int32()
    region = choice(LrnRegion, LrnRegion.ACROSS_CHANNEL)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_float(x, "in[0]")
        rank = len(x.shape)
        if not self.axes(rank):
            least = 1 if self.region is LrnRegion.ACROSS_CHANNEL else 3
            raise OpError(f"in[0] {x.shape} must have rank {least} or more for {self.region.name}")
        if self.radius < 0:
            raise OpError(f"radius is {self.radius}, but must not be negative")
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        total = np.square(x)
        for axis in self.axes(x.ndim):
            total = _window_sums(total, axis, self.radius)
        base = x.dtype.type(self.bias) + x.dtype.type(self.alpha) * total
        result: Array = x * base ** x.dtype.type(-self.beta)
        return result

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the axes along which a tensor of a rank has neighbors."""
        if self.region is LrnRegion.WITHIN_CHANNEL:
            return tuple(range(1, rank - 1))
        return (rank - 1,) if rank else ()


def _window_sums(x: Array, axis: int, radius: int) -> Array:
    """Return the sum of each element and those at most `radius` away along an axis."""
    source = np.moveaxis(x, axis, -1)
    result = source.copy()
    for distance in range(1, min(radius, source.shape[-1] - 1) + 1):
        result[..., distance:] += source[..., :-distance]
        result[..., :-distance] += source[..., distance:]
    return np.moveaxis(result, -1, axis)
