"""Conversion between windows of images and columns."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import math

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, ScaleOffset, Spec, quantize
from dovetail.ops import BatchAxis, Domain, In, Op, tensor
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, moved, need_rank
from dovetail_opset._windows import Window


class _Columns(Op):
    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.FIRST

    kernel_size = tensor((2,))
    stride = tensor((2,))
    pad_amount = tensor((2, 2))
    dilation = tensor((2,), [1, 1])

    @property
    def window(self) -> Window:
        """The sliding window."""
        return Window.of(self.kernel_size, self.stride, self.pad_amount, self.dilation)


def _zero(x: Array, out: Spec) -> int:
    """Return 0 in the form of the elements of `x`: stored integers or real values."""
    if isinstance(out.encoding, ScaleOffset) and x.dtype.kind in "iu":
        return int(quantize(np.zeros(()), out.encoding, out.dtype))
    return 0


@PACKAGE.op("Im2Col")
class Im2Col(_Columns):
    """The windows of an image padded with 0, one column per window.

    x: (n, h, w, c). Returns (n, c * kh * kw, l): all positions of the window row by row; the rows
    of a column run over channels, then down, then across.
    """

    domain = Domain.MOVE

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        n, height, width, channels = x.shape
        window = self.window
        positions = math.prod(window.outputs((height, width)))
        return moved(x, (n, channels * math.prod(window.size), positions), out)

    def reference(self, x: Array, out: Spec) -> Array:
        window = self.window
        views = window.views(window.padded(x, _zero(x, out)))  # (n, oh, ow, c, kh, kw)
        n, oh, ow, *column = views.shape
        return views.transpose(0, 3, 4, 5, 1, 2).reshape(n, math.prod(column), oh * ow)


@PACKAGE.op("Col2Im")
class Col2Im(_Columns):
    """The image whose windows are the given columns; overlapping elements are added.

    x: (n, c * kh * kw, l), as Im2Col returns it. Returns (n, h, w, c); the graph declares h and w,
    which must have l windows. pad_amount is the padding of the image, which is removed again.
    """

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_rank(x, 3, "in[0]")
        window = self.window
        n, rows, columns = x.shape
        size = math.prod(window.size)
        if rows % size:
            raise OpError(f"the {rows} rows of in[0] are not a multiple of the {size} of a window")
        if out is None:
            raise OpError("the output must be declared: in[0] does not say its height and width")
        need_rank(out, 4, "out[0]")
        counts = window.outputs(out.shape[1:3])
        if math.prod(counts) != columns:
            raise OpError(
                f"in[0] has {columns} columns, but an image of {out.shape[1:3]} has "
                f"{counts[0]} x {counts[1]} windows"
            )
        return computed(x, (n, *out.shape[1:3], rows // size), out)

    def reference(self, x: Array, out: Spec) -> Array:
        window = self.window
        n, height, width, channels = out.shape
        counts = window.outputs((height, width))
        target = window.padded(np.zeros((n, height, width, channels), x.dtype))
        columns = x.reshape(n, channels, math.prod(window.size), *counts)
        for tap, where in enumerate(window.taps(counts)):
            target[where] += columns[:, :, tap].transpose(0, 2, 3, 1)
        return window.cropped(target)
