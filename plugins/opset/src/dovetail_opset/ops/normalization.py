"""Normalizations."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
import math
from typing import ClassVar

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import BatchAxis, Bias, In, Op, Weight, bool8, choice, float32, tensor, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import (
    computed,
    ints,
    need_axes,
    need_float,
    need_same_type,
    need_shape,
)


@PACKAGE.op("Batchnorm")
class Batchnorm(Op):
    """x * weight + bias per channel; both already contain mean and variance.

    x: (..., c); weight, bias: (c,). Returns (..., c).
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))
    quantization_roles: ClassVar = {1: Weight(), 2: Bias(0, 1)}
    batch_axis = BatchAxis.FIRST

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
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, statistics over `axes`.

    x: any shape, also of the result; gamma, beta: the sizes of x at `axes`, in the order of `axes`.
    """

    inputs = (In("in[0]"), In("in[1]", optional=True), In("in[2]", optional=True))
    quantization_roles: ClassVar = {1: Weight(), 2: Bias()}
    batch_axis = BatchAxis.ANY
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
        result = _normalized(x, axes, self.epsilon)
        if gamma is not None:
            result = result * _spread(gamma, axes, x.ndim)
        return result if beta is None else result + _spread(beta, axes, x.ndim)


@PACKAGE.op("RmsNorm")
class RmsNorm(Op):
    """x / sqrt(mean of x ** 2 + epsilon) * gamma + beta, the mean over `axes`.

    x: any shape, also of the result; gamma, beta: the sizes of x at `axes`, in the order of `axes`.
    """

    inputs = (In("in[0]"), In("in[1]", optional=True), In("in[2]", optional=True))
    quantization_roles: ClassVar = {1: Weight(), 2: Bias()}
    batch_axis = BatchAxis.ANY
    source = (
        "spec/qnn_ops.md, RmsNorm; Zhang and Sennrich 2019, Root Mean Square Layer Normalization"
    )

    epsilon = float32(1e-6)
    axes = tensor((None,))

    def infer(self, x: Spec, gamma: Spec | None, beta: Spec | None, out: Spec | None) -> Spec:
        shape = tuple(x.shape[a] for a in need_axes(self.axes, len(x.shape)))
        _need_factors(x, gamma, beta, shape)
        return computed(x, x.shape, out)

    def reference(self, x: Array, gamma: Array | None, beta: Array | None) -> Array:
        axes = ints(self.axes)
        mean = np.square(x).mean(axis=axes, keepdims=True) if x.size else x
        result: Array = x / np.sqrt(mean + x.dtype.type(self.epsilon))
        if gamma is not None:
            result = result * _spread(gamma, axes, x.ndim)
        return result if beta is None else result + _spread(beta, axes, x.ndim)


class NormMode(enum.IntEnum):
    """Divisor of InstanceNorm."""

    MU_SIGMA = 0
    RMS = 1


class NormRegion(enum.IntEnum):
    """Region over which InstanceNorm takes its statistics."""

    ACROSS_SPATIAL = 0
    ACROSS_CHANNEL = 1
    ACROSS_ALL = 2


@PACKAGE.op("InstanceNorm")
class InstanceNorm(Op):
    """Each batch item, normalized over a region of it, times gamma plus beta per channel.

    x: (n, ..., c), also of the result; gamma, beta: (c,). MU_SIGMA: (x - mean) / sqrt(variance +
    epsilon), or x - mean without normalize_variance. RMS: x / sqrt(sum of x ** 2 + epsilon), a sum
    and not a mean, whatever normalize_variance is. The region, in either mode, is all dimensions
    between the first and the last, the last, or all but the first.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))
    quantization_roles: ClassVar = {1: Weight(), 2: Bias()}
    batch_axis = BatchAxis.FIRST
    source = "spec/qnn_ops.md, InstanceNorm; Ulyanov et al. 2016, Instance Normalization"

    epsilon = float32(1e-12)
    mode = choice(NormMode, NormMode.MU_SIGMA)
    normalize_variance = bool8(True)
    region = choice(NormRegion, NormRegion.ACROSS_SPATIAL)

    def infer(self, x: Spec, gamma: Spec, beta: Spec | None, out: Spec | None) -> Spec:
        _need_channels(x)
        _need_factors(x, gamma, beta, x.shape[-1:])
        return computed(x, x.shape, out)

    def reference(self, x: Array, gamma: Array, beta: Array | None) -> Array:
        epsilon, axes = x.dtype.type(self.epsilon), self.axes(x.ndim)
        result: Array
        if self.mode is NormMode.RMS:
            result = x / np.sqrt(np.square(x).sum(axis=axes, keepdims=True) + epsilon)
        elif not self.normalize_variance:
            result = _centered(x, axes)
        else:
            result = _normalized(x, axes, self.epsilon)
        result = result * gamma
        return result if beta is None else result + beta

    @property
    def is_by_channel(self) -> bool:
        """True for mean and deviation of each channel, the only form that ONNX has."""
        form = (self.mode, self.region) == (NormMode.MU_SIGMA, NormRegion.ACROSS_SPATIAL)
        return form and bool(self.normalize_variance)

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the axes of the region in a tensor of a rank."""
        match self.region:
            case NormRegion.ACROSS_SPATIAL:
                return tuple(range(1, rank - 1))
            case NormRegion.ACROSS_CHANNEL:
                return (rank - 1,)
            case NormRegion.ACROSS_ALL:
                return tuple(range(1, rank))


@PACKAGE.op("GroupNorm")
class GroupNorm(Op):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, per batch item and group.

    x: (n, ..., c), also of the result, in `group` groups of adjacent channels; gamma, beta: (c,).
    """

    inputs = (In("in[0]"), In("in[1]", optional=True), In("in[2]", optional=True))
    quantization_roles: ClassVar = {1: Weight(), 2: Bias()}
    batch_axis = BatchAxis.FIRST
    source = "spec/qnn_ops.md, GroupNorm; Wu and He 2018, Group Normalization"

    epsilon = float32()
    group = uint32()

    def infer(self, x: Spec, gamma: Spec | None, beta: Spec | None, out: Spec | None) -> Spec:
        _need_channels(x)
        if self.group == 0 or x.shape[-1] % self.group:
            raise OpError(
                f"the {x.shape[-1]} channels of in[0] do not divide into {self.group} groups"
            )
        _need_factors(x, gamma, beta, x.shape[-1:])
        return computed(x, x.shape, out)

    def reference(self, x: Array, gamma: Array | None, beta: Array | None) -> Array:
        channels = x.shape[-1]
        grouped = x.reshape(
            (x.shape[0], math.prod(x.shape[1:-1]), self.group, channels // self.group)
        )
        result: Array = _normalized(grouped, (1, 3), self.epsilon).reshape(x.shape)
        if gamma is not None:
            result = result * gamma
        return result if beta is None else result + beta


@PACKAGE.op("L2Norm")
class L2Norm(Op):
    """x over its Euclidean norm along one axis or several, or over epsilon if that is larger.

    x: any shape, also of the result. Where `axes` is given, `axis` is ignored.
    """

    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.ANY

    axis = uint32(0)
    axes = tensor((None,), default=None)
    epsilon = float32(1e-12)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_float(x, "in[0]")
        need_axes(np.asarray(self.over()), len(x.shape))
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        norm = np.sqrt(np.square(x).sum(axis=self.over(), keepdims=True))
        result: Array = x / np.maximum(norm, x.dtype.type(self.epsilon))
        return result

    def over(self) -> tuple[int, ...]:
        """Return the axes of the norm."""
        given: Array | None = self.axes
        return (self.axis,) if given is None else ints(given)


def _centered(x: Array, axes: tuple[int, ...]) -> Array:
    return np.subtract(x, x.mean(axis=axes, keepdims=True)) if x.size else x


def _normalized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    if not x.size:  # no means to take, of which NumPy warns
        return x
    centered = _centered(x, axes)
    variance = np.square(centered).mean(axis=axes, keepdims=True)
    result: Array = centered / np.sqrt(variance + x.dtype.type(epsilon))
    return result


def _need_channels(x: Spec) -> None:
    if len(x.shape) < 2:
        raise OpError(f"in[0] must have a batch and a channel dimension, but is {x.shape}")


def _need_factors(x: Spec, gamma: Spec | None, beta: Spec | None, shape: tuple[int, ...]) -> None:
    """Raise if gamma or beta does not match the normalized axes.

    The type is that of x; fixed-point x may have float factors.
    """
    need_float(x, "in[0]")
    need_shape(gamma, shape, "gamma in[1]")
    need_shape(beta, shape, "beta in[2]")
    given = [s for s in (gamma, beta) if s is not None]
    need_same_type(x, *(s for s in given if not (x.dtype.is_fixed_point and s.dtype.is_float)))


def _spread(values: Array, axes: tuple[int, ...], rank: int) -> Array:
    """Return a tensor over `axes` in full rank, so that it broadcasts."""
    ordered = values.transpose(np.argsort(axes))
    sizes = iter(ordered.shape)
    return ordered.reshape([next(sizes) if i in axes else 1 for i in range(rank)])
