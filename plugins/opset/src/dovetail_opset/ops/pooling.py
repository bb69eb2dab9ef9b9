"""Pooling."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum

import numpy as np

from dovetail.ir import Array, Shape, Spec
from dovetail.ops import In, Op, bool8, choice, tensor
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_rank
from dovetail_opset._windows import Window


class Rounding(enum.IntEnum):
    """How the number of windows is rounded."""

    FLOOR = 0
    CEIL = 1


class _Pool2d(Op):
    inputs = (In("in[0]"),)

    filter_size = tensor((2,))
    stride = tensor((2,))
    pad_amount = tensor((2, 2))
    rounding_mode = choice(Rounding, Rounding.FLOOR)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        n, height, width, channels = x.shape
        return computed(x, (n, *self.window.outputs((height, width)), channels), out)

    @property
    def window(self) -> Window:
        """The sliding window."""
        ceil = self.rounding_mode is Rounding.CEIL
        return Window.of(self.filter_size, self.stride, self.pad_amount, ceil=ceil)

    def _counts(self, spatial: Shape, *, padding: float) -> Array:
        """Elements of each window, (1, oh, ow, 1) float32: one in the padding counts `padding`."""
        window = self.window
        ones = window.padded(np.ones((1, *spatial, 1), np.float32), padding)
        counts: Array = window.views(ones).sum(axis=(-2, -1))
        return counts


@PACKAGE.op("PoolMax2d")
class PoolMax2d(_Pool2d):
    """The greatest element of each window; the padding holds 0 and takes part.

    x: (n, h, w, c). Gives (n, oh, ow, c), extents round((before + in + after - f) / stride) + 1.
    What lies beyond the padding (rounding_mode CEIL) takes no part; a window wholly there gives 0.
    A converter whose format ignores padding must pad with its least value by itself.
    """

    source = "spec/qnn_ops.md, PoolMax2d"

    def reference(self, x: Array) -> Array:
        window = self.window
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        found: Array = window.views(window.padded(x), least).max(axis=(-2, -1))
        empty = self._counts(x.shape[1:3], padding=1) == 0
        return np.where(empty, x.dtype.type(0), found)


@PACKAGE.op("PoolAvg2d")
class PoolAvg2d(_Pool2d):
    """The mean of each window, over its elements inside the input.

    x: (n, h, w, c). Gives (n, oh, ow, c), extents round((before + in + after - f) / stride) + 1.
    With count_pad_for_edges the divisor is always fh * fw. A window wholly outside gives 0.
    """

    source = "spec/qnn_ops.md, PoolAvg2d"

    count_pad_for_edges = bool8(False)

    def reference(self, x: Array) -> Array:
        window = self.window
        sums: Array = window.views(window.padded(x)).sum(axis=(-2, -1))
        if self.count_pad_for_edges:
            return sums / np.float32(np.prod(window.size))
        return sums / np.maximum(self._counts(x.shape[1:3], padding=0), 1)
