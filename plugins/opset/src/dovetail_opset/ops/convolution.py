"""Convolutions."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Shape, Spec
from dovetail.ops import In, Op, bool8, tensor, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_rank, need_shape
from dovetail_opset._windows import Window


@PACKAGE.op("Conv2d")
class Conv2d(Op):
    """Cross-correlation with zero padding, in groups of channels, plus a bias.

    x: (n, h, w, c); weight: (fh, fw, c / group, k), k and c divisible by group; bias: (k,).
    Gives (n, oh, ow, k), each extent floor((before + in + after - span) / stride) + 1 where span
    is (f - 1) * dilation + 1. Output channel j reads the channels of group j // (k / group).
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))
    source = "spec/qnn_ops.md, Conv2d"

    stride = tensor((2,))
    pad_amount = tensor((2, 2))
    group = uint32(1)
    dilation = tensor((2,), [1, 1])
    reuse_sparse_indices = bool8(False)

    def infer(self, x: Spec, weight: Spec, bias: Spec | None, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        need_rank(weight, 4, "the filters in[1]")
        channels, (taken, made) = x.shape[3], weight.shape[2:]
        if self.group < 1 or made % self.group:
            raise OpError(f"{made} output channels do not divide into {self.group} groups")
        if channels != taken * self.group:
            raise OpError(
                f"in[0] has {channels} channels, but filters {weight.shape} in {self.group} "
                f"group(s) take {taken * self.group}"
            )
        need_shape(bias, (made,), "the bias in[2]")
        spatial = self.window(weight.shape).outputs(x.shape[1:3])
        return computed(x, (x.shape[0], *spatial, made), out)

    def reference(self, x: Array, weight: Array, bias: Array | None) -> Array:
        window = self.window(weight.shape)
        views = window.views(window.padded(x))
        n, oh, ow = views.shape[:3]
        fh, fw, taken, made = weight.shape
        # (group, places, channels * fh * fw) times (group, channels * fh * fw, outputs)
        places = views.reshape(n * oh * ow, self.group, taken * fh * fw).swapaxes(0, 1)
        filters = weight.transpose(2, 0, 1, 3).reshape(
            taken * fh * fw, self.group, made // self.group
        )
        result = (places @ filters.swapaxes(0, 1)).swapaxes(0, 1).reshape(n, oh, ow, made)
        return result if bias is None else result + bias

    def window(self, weight: Shape) -> Window:
        """Gives the sliding window for filters of this shape."""
        return Window.of(weight[:2], self.stride, self.pad_amount, self.dilation)


@PACKAGE.op("DepthWiseConv2d")
class DepthWiseConv2d(Op):
    """Cross-correlation of each channel with filters of its own, zero padding, plus a bias.

    x: (n, h, w, c); weight: (fh, fw, 1, c * m); bias: (c * m,). Gives (n, oh, ow, c * m); output
    channel c * m + j is the j-th result of input channel c.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))
    source = "spec/qnn_ops.md, DepthWiseConv2d"

    stride = tensor((2,))
    pad_amount = tensor((2, 2))
    dilation = tensor((2,), [1, 1])

    def infer(self, x: Spec, weight: Spec, bias: Spec | None, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        need_rank(weight, 4, "the filters in[1]")
        channels, (one, made) = x.shape[3], weight.shape[2:]
        if one != 1:
            raise OpError(
                f"dimension 2 of the filters must be 1, but their shape is {weight.shape}"
            )
        if channels == 0 or made % channels:
            raise OpError(f"{made} output channels are no multiple of {channels} input channels")
        need_shape(bias, (made,), "the bias in[2]")
        spatial = self.window(weight.shape).outputs(x.shape[1:3])
        return computed(x, (x.shape[0], *spatial, made), out)

    def reference(self, x: Array, weight: Array, bias: Array | None) -> Array:
        window = self.window(weight.shape)
        views = window.views(window.padded(x))
        filters = weight.reshape(
            *weight.shape[:2], x.shape[3], weight.shape[3] // max(x.shape[3], 1)
        )
        result: Array = np.einsum("nhwcij,ijcm->nhwcm", views, filters)
        result = result.reshape(*views.shape[:3], weight.shape[3])
        return result if bias is None else result + bias

    def window(self, weight: Shape) -> Window:
        """Gives the sliding window for filters of this shape."""
        return Window.of(weight[:2], self.stride, self.pad_amount, self.dilation)
