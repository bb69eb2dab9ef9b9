"""Convolutions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from dovetail.errors import OpError, counted
from dovetail.ir import Array, Shape, Spec
from dovetail.ops import (
    BatchAxis,
    Bias,
    Granularity,
    In,
    Op,
    ParamField,
    Specs,
    Weight,
    bool8,
    tensor,
    uint32,
)
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, elements, need_rank, need_shape, rows
from dovetail_opset._windows import Window


class _Sliding(Op):
    """Filters that slide over (n, *spatial, c), plus a bias."""

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))
    quantization_roles: ClassVar = {1: Weight(-1, Granularity.CHANNEL), 2: Bias(0, 1)}
    batch_axis = BatchAxis.FIRST

    axes: ClassVar[int]  # how many spatial ones
    stride: ParamField[Any]
    pad_amount: ParamField[Any]
    dilation: ParamField[Any]

    def infer(self, x: Spec, weight: Spec, bias: Spec | None, out: Spec | None) -> Spec:
        need_rank(x, self.axes + 2, "in[0]")
        need_rank(weight, self.axes + 2, "the filters in[1]")
        self._check_channels(x.shape[-1], weight.shape)
        made = weight.shape[-1]
        need_shape(bias, (made,), "the bias in[2]")
        spatial = self.window(weight.shape).outputs(x.shape[1:-1])
        return computed(x, (x.shape[0], *spatial, made), out)

    def work(self, ins: Specs, outs: Specs) -> int:
        return rows(outs[0]) * elements(ins[1])  # all filters at each position of the result

    def window(self, weight: Shape) -> Window:
        """Return the sliding window for filters of this shape."""
        return Window.of(weight[:-2], self.stride, self.pad_amount, self.dilation)

    def _check_channels(self, channels: int, weight: Shape) -> None:
        raise NotImplementedError


class _Convolution(_Sliding):
    group: ParamField[int]

    def reference(self, x: Array, weight: Array, bias: Array | None) -> Array:
        window = self.window(weight.shape)
        views = window.views(window.padded(x))
        lead = views.shape[: self.axes + 1]
        taken, made = weight.shape[-2:]
        depth = taken * math.prod(window.size)
        # (group, positions, channels * taps) times (group, channels * taps, outputs)
        positions = views.reshape(math.prod(lead), self.group, depth).swapaxes(0, 1)
        filters = np.moveaxis(weight, -2, 0).reshape(depth, self.group, made // self.group)
        result = (positions @ filters.swapaxes(0, 1)).swapaxes(0, 1).reshape(*lead, made)
        return result if bias is None else result + bias

    def _check_channels(self, channels: int, weight: Shape) -> None:
        taken, made = weight[-2:]
        if self.group < 1 or made % self.group:
            raise OpError(f"{made} output channels do not divide into {self.group} groups")
        if channels != taken * self.group:
            raise OpError(
                f"in[0] has {counted(channels, 'channel')}, but filters {weight} in "
                f"{counted(self.group, 'group')} take {taken * self.group}"
            )


@PACKAGE.op("Conv1d")
class Conv1d(_Convolution):
    """Cross-correlation with zero padding, in groups of channels, plus a bias.

    x: (n, w, c); weight: (fw, c / group, k); bias: (k,). Returns (n, ow, k), as Conv2d along one
    axis; stride and dilation are scalars, pad_amount is (before, after).
    """

    axes = 1

    stride = uint32()
    pad_amount = tensor((2,))
    group = uint32(1)
    dilation = uint32(1)


@PACKAGE.op("Conv2d")
class Conv2d(_Convolution):
    """Cross-correlation with zero padding, in groups of channels, plus a bias.

    x: (n, h, w, c); weight: (fh, fw, c / group, k), k and c divisible by group; bias: (k,). Returns
    (n, oh, ow, k) with sizes floor((before + in + after - span) / stride) + 1, where span is (f -
    1) * dilation + 1. Output channel j reads the channels of group j // (k / group).
    """

    axes = 2

    stride = tensor((2,))
    pad_amount = tensor((2, 2))
    group = uint32(1)
    dilation = tensor((2,), [1, 1])
    reuse_sparse_indices = bool8(False)


@PACKAGE.op("Conv3d")
class Conv3d(_Convolution):
    """Cross-correlation with zero padding, in groups of channels, plus a bias.

    x: (n, d, h, w, c); weight: (fd, fh, fw, c / group, k); bias: (k,). Returns (n, od, oh, ow, k),
    as Conv2d along three axes. The sparse flag is a hint; its spelling is QNN's.
    """

    axes = 3

    stride = tensor((3,))
    pad_amount = tensor((3, 2))
    group = uint32(1)
    dilation = tensor((3,), [1, 1, 1])
    reuse_sparse_indicies = bool8(False)


class _DepthWise(_Sliding):
    def reference(self, x: Array, weight: Array, bias: Array | None) -> Array:
        window = self.window(weight.shape)
        counts = window.outputs(x.shape[1:-1])
        n, channels, made = len(x), x.shape[-1], weight.shape[-1]
        padded = window.padded(x)
        sums = np.zeros((n, *counts, channels, made // channels), np.result_type(x, weight))
        filters = weight.reshape(math.prod(window.size), channels, made // channels)
        for tap, where in zip(filters, window.taps(counts), strict=True):
            sums += padded[where][..., None] * tap
        result = sums.reshape(n, *counts, made)
        return result if bias is None else result + bias

    def _check_channels(self, channels: int, weight: Shape) -> None:
        one, made = weight[-2:]
        if one != 1:
            raise OpError(
                f"dimension {self.axes} of the filters must be 1, but their shape is {weight}"
            )
        if channels == 0 or made % channels:
            raise OpError(f"{made} output channels are not a multiple of {channels} input channels")


@PACKAGE.op("DepthWiseConv1d")
class DepthWiseConv1d(_DepthWise):
    """Cross-correlation of each channel with its own filters, zero padding, plus a bias.

    x: (n, w, c); weight: (fw, 1, c * m); bias: (c * m,). Returns (n, ow, c * m), as DepthWiseConv2d
    along one axis; stride and dilation are scalars, pad_amount is (before, after).
    """

    axes = 1

    stride = uint32()
    pad_amount = tensor((2,))
    dilation = uint32(1)


@PACKAGE.op("DepthWiseConv2d")
class DepthWiseConv2d(_DepthWise):
    """Cross-correlation of each channel with its own filters, zero padding, plus a bias.

    x: (n, h, w, c); weight: (fh, fw, 1, c * m); bias: (c * m,). Returns (n, oh, ow, c * m); output
    channel c * m + j is result j of input channel c.
    """

    axes = 2

    stride = tensor((2,))
    pad_amount = tensor((2, 2))
    dilation = tensor((2,), [1, 1])
