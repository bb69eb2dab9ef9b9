"""Pooling."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dovetail.ir import Array, Shape, Spec
from dovetail.ops import BatchAxis, In, Op, ParamField, bool8, choice, tensor
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_rank
from dovetail_opset._windows import Window


class Rounding(enum.IntEnum):
    """Rounding of the number of windows."""

    FLOOR = 0
    CEIL = 1


class _Pool(Op):
    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.FIRST

    axes: ClassVar[int]  # how many spatial ones
    filter_size: ParamField[Any]
    stride: ParamField[Any]
    pad_amount: ParamField[Any]

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_rank(x, self.axes + 2, "in[0]")
        spatial = self.window.outputs(x.shape[1:-1])
        return computed(x, (x.shape[0], *spatial, x.shape[-1]), out)

    @property
    def window(self) -> Window:
        """The sliding window."""
        return Window.of(self.filter_size, self.stride, self.pad_amount)

    @property
    def _taps(self) -> Shape:
        """The axes of a window's elements in the result of `Window.views`."""
        return tuple(range(-self.axes, 0))


class _RoundedPool(_Pool):
    rounding_mode = choice(Rounding, Rounding.FLOOR)

    @property
    def window(self) -> Window:
        ceil = self.rounding_mode is Rounding.CEIL
        return replace(super().window, ceil=ceil)

    def _counts(self, spatial: Shape, *, padding: float) -> Array:
        """Return the number of elements of each window, (1, *out, 1) float32.

        An element of the padding counts `padding`.
        """
        window = self.window
        ones = window.padded(np.ones((1, *spatial, 1), np.float32), padding)
        counts: Array = window.views(ones).sum(axis=self._taps)
        return counts


class _MaxPool(_RoundedPool):
    keeps = (0,)

    def reference(self, x: Array) -> Array:
        window = self.window
        found: Array = window.views(window.padded(x), _least(x)).max(axis=self._taps)
        empty = self._counts(x.shape[1:-1], padding=1) == 0
        return np.where(empty, x.dtype.type(0), found)


def _least(x: Array) -> float:
    if x.dtype.kind == "f":
        return -np.inf
    return 0 if x.dtype.kind == "b" else int(np.iinfo(x.dtype).min)


class _AveragePool(_RoundedPool):
    count_pad_for_edges = bool8(False)

    def reference(self, x: Array) -> Array:
        window = self.window
        sums: Array = window.views(window.padded(x)).sum(axis=self._taps)
        if self.count_pad_for_edges:
            return sums / np.float32(np.prod(window.size))
        return sums / np.maximum(self._counts(x.shape[1:-1], padding=0), 1)


@PACKAGE.op("PoolMax2d")
class PoolMax2d(_MaxPool):
    """The largest element of each window, NaN if it holds one; the padding counts as 0.

    x: (n, h, w, c). Returns (n, oh, ow, c), sizes round((before + in + after - f) / stride) + 1.
    Elements beyond the padding (rounding_mode CEIL) take no part; a window wholly beyond
    it is 0. A converter of a format that ignores padding must pad with the lowest value itself.
    """

    axes = 2

    filter_size = tensor((2,))
    stride = tensor((2,))
    pad_amount = tensor((2, 2))


@PACKAGE.op("PoolMax3d")
class PoolMax3d(_MaxPool):
    """The largest element of each window, NaN if it holds one; the padding counts as 0.

    x: (n, d, h, w, c). Returns (n, od, oh, ow, c), as PoolMax2d along three axes.
    """

    axes = 3

    filter_size = tensor((3,))
    stride = tensor((3,))
    pad_amount = tensor((3, 2))


@PACKAGE.op("PoolAvg2d")
class PoolAvg2d(_AveragePool):
    """The mean of each window, over its elements inside the input.

    x: (n, h, w, c). Returns (n, oh, ow, c), sizes round((before + in + after - f) / stride) + 1.
    With count_pad_for_edges the divisor is always fh * fw. A window wholly outside the input is 0.
    """

    axes = 2

    filter_size = tensor((2,))
    stride = tensor((2,))
    pad_amount = tensor((2, 2))


@PACKAGE.op("PoolAvg3d")
class PoolAvg3d(_AveragePool):
    """The mean of each window, over its elements inside the input.

    x: (n, d, h, w, c). Returns (n, od, oh, ow, c), as PoolAvg2d along three axes.
    """

    axes = 3

    filter_size = tensor((3,))
    stride = tensor((3,))
    pad_amount = tensor((3, 2))


@PACKAGE.op("L2Pool2d")
class L2Pool2d(_Pool):
    """The Euclidean norm of each window: the root of the sum of its squares, not of their mean.

    x: (n, h, w, c). Returns (n, oh, ow, c), sizes floor((before + in + after - f) / stride) + 1;
    the padding holds 0.
    """

    axes = 2

    filter_size = tensor((2,))
    stride = tensor((2,))
    pad_amount = tensor((2, 2))

    def reference(self, x: Array) -> Array:
        window = self.window
        real = x if x.dtype.kind == "f" else x.astype(np.float64)  # squares of int8 leave it
        squares = np.square(window.padded(real))
        found: Array = np.sqrt(window.views(squares).sum(axis=self._taps))
        return found
