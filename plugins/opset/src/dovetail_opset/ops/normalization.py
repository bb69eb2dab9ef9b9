"""Normalizations."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import In, Op, float32, tensor
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, ints, need_axes, need_shape


@PACKAGE.op("Batchnorm")
class Batchnorm(Op):
    """x * weight + bias for each channel; mean and variance are folded into both already.

    x: (..., c); weight, bias: (c,). Gives (..., c).
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))
    source = "spec/qnn_ops.md, Batchnorm"

    def infer(self, x: Spec, weight: Spec, bias: Spec | None, out: Spec | None) -> Spec:
        if not x.shape:
            raise OpError("in[0] must have a channel dimension, but it is a scalar")
        need_shape(weight, x.shape[-1:], "the weights in[1]")
        need_shape(bias, x.shape[-1:], "the bias in[2]")
        return computed(x, x.shape, out)

    def reference(self, x: Array, weight: Array, bias: Array | None) -> Array:
        return x * weight if bias is None else x * weight + bias


@PACKAGE.op("LayerNorm")
class LayerNorm(Op):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, statistics taken over `axes`.

    x: any shape, which stays; gamma, beta: the extents of x at `axes`, in the order of `axes`.
    """

    inputs = (In("in[0]"), In("in[1]", optional=True), In("in[2]", optional=True))
    source = "spec/qnn_ops.md, LayerNorm; Ba et al. 2016, Layer Normalization"

    epsilon = float32(0.001)
    axes = tensor((None,))

    def infer(self, x: Spec, gamma: Spec | None, beta: Spec | None, out: Spec | None) -> Spec:
        shape = tuple(x.shape[a] for a in need_axes(self.axes, len(x.shape)))
        need_shape(gamma, shape, "gamma in[1]")
        need_shape(beta, shape, "beta in[2]")
        return computed(x, x.shape, out)

    def reference(self, x: Array, gamma: Array | None, beta: Array | None) -> Array:
        axes = ints(self.axes)
        centred: Array = x - x.mean(axis=axes, keepdims=True)
        variance = np.square(centred).mean(axis=axes, keepdims=True)
        result: Array = centred / np.sqrt(variance + x.dtype.type(self.epsilon))
        if gamma is not None:
            result = result * _spread(gamma, axes, x.ndim)
        return result if beta is None else result + _spread(beta, axes, x.ndim)


def _spread(values: Array, axes: tuple[int, ...], rank: int) -> Array:
    """Gives a tensor over `axes` as one of full rank that broadcasts."""
    ordered = values.transpose(np.argsort(axes))
    extents = iter(ordered.shape)
    return ordered.reshape([next(extents) if i in axes else 1 for i in range(rank)])
