"""Transposed convolutions: each element of the input contributes to a window of the output."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

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
    tensor,
    uint32,
)
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, elements, ints, need_rank, need_shape, rows
from dovetail_opset._windows import Window


class _Transposed(Op):
    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))
    quantization_roles: ClassVar = {1: Weight(-1, Granularity.CHANNEL), 2: Bias(0, 1)}
    batch_axis = BatchAxis.FIRST

    axes: ClassVar[int]  # how many spatial ones
    stride: ParamField[Any]
    pad_amount: ParamField[Any]
    group: ParamField[int]
    output_padding: ParamField[Any]

    def infer(self, x: Spec, weight: Spec, bias: Spec | None, out: Spec | None) -> Spec:
        need_rank(x, self.axes + 2, "in[0]")
        need_rank(weight, self.axes + 2, "the filters in[1]")
        channels, (taken, each) = x.shape[-1], weight.shape[-2:]
        if self.group < 1 or channels % self.group:
            raise OpError(f"{channels} input channels do not divide into {self.group} groups")
        if channels != taken:
            raise OpError(
                f"in[0] has {counted(channels, 'channel')}, but filters {weight.shape} take {taken}"
            )
        made = each * self.group
        need_shape(bias, (made,), "the bias in[2]")
        return computed(x, (x.shape[0], *self._spatial(x.shape, weight.shape), made), out)

    def reference(self, x: Array, weight: Array, bias: Array | None) -> Array:
        window = self.window(weight.shape)
        n, *spatial, channels = x.shape
        each, made = weight.shape[-1], weight.shape[-1] * self.group
        target = np.zeros((n, *self._full(x.shape, window), made), np.result_type(x, weight))
        # (group, positions, channels) times (taps, group, channels, outputs)
        depth = channels // self.group
        positions = x.reshape(n * math.prod(spatial), self.group, depth).swapaxes(0, 1)
        filters = weight.reshape(math.prod(window.size), self.group, depth, each)
        for tap, where in zip(filters, window.taps(tuple(spatial)), strict=True):
            target[where] += (positions @ tap).swapaxes(0, 1).reshape(n, *spatial, made)
        result = window.cropped(target)
        return result if bias is None else result + bias

    def work(self, ins: Specs, outs: Specs) -> int:
        return rows(ins[0]) * elements(ins[1])  # all filters at each position of the input

    def window(self, weight: Shape) -> Window:
        """Return the window of the output to which each element of the input contributes."""
        return Window.of(weight[:-2], self.stride, self.pad_amount)

    def _spatial(self, x: Shape, weight: Shape) -> list[int]:
        window = self.window(weight)
        extras = self._extras()
        for extra, stride, dilation in zip(extras, window.stride, window.dilation, strict=True):
            if extra >= max(stride, dilation):
                raise OpError(
                    f"output_padding {extras} must be less than the stride {window.stride}"
                )
        full = self._full(x, window)
        found = [size - sum(pair) for size, pair in zip(full, window.pads, strict=True)]
        if min(found) < 0:
            raise OpError(
                f"pad_amount {window.pads} removes more than the {full} elements computed"
            )
        return found

    def _full(self, x: Shape, window: Window) -> Shape:
        """Return the spatial sizes of the output before the padding is removed."""
        sizes = zip(x[1:-1], window.stride, window.spans, self._extras(), strict=True)
        return tuple(stride * (n - 1) + span + extra for n, stride, span, extra in sizes)

    def _extras(self) -> Shape:
        return ints(np.reshape(self.output_padding, -1))


@PACKAGE.op("TransposeConv1d")
class TransposeConv1d(_Transposed):
    """The gradient of Conv1d for its input: windows of the output, added up, plus a bias.

    x: (n, w, c); weight: (fw, c, k / group); bias: (k,). Returns (n, ow, k), as TransposeConv2d
    along one axis; stride and output_padding are scalars, pad_amount is (before, after).
    """

    axes = 1

    stride = uint32()
    pad_amount = tensor((2,))
    group = uint32(1)
    output_padding = uint32(0)


@PACKAGE.op("TransposeConv2d")
class TransposeConv2d(_Transposed):
    """The gradient of Conv2d for its input: windows of the output, added up, plus a bias.

    x: (n, h, w, c); weight: (fh, fw, c, k / group), c divisible by group; bias: (k,). Returns (n,
    oh, ow, k), sizes stride * (in - 1) + f - before - after + output_padding: pad_amount removes
    elements of the output, output_padding adds some at its end, fewer than stride. The channels of
    group i of the input contribute to those of group i of the output.
    """

    axes = 2

    stride = tensor((2,))
    pad_amount = tensor((2, 2))
    group = uint32(1)
    output_padding = tensor((2,), [0, 0])


@PACKAGE.op("TransposeConv3d")
class TransposeConv3d(_Transposed):
    """The gradient of Conv3d for its input: windows of the output, added up, plus a bias.

    x: (n, d, h, w, c); weight: (fd, fh, fw, c, k / group); bias: (k,). Returns (n, od, oh, ow, k),
    as TransposeConv2d along three axes, f being (f - 1) * dilation + 1; output_padding is less than
    the stride or the dilation.
    """

    axes = 3

    stride = tensor((3,))
    pad_amount = tensor((3, 2))
    dilation = tensor((3,), [1, 1, 1])
    group = uint32(1)
    output_padding = tensor((3,), [0, 0, 0])

    def window(self, weight: Shape) -> Window:
        return Window.of(weight[:-2], self.stride, self.pad_amount, self.dilation)
