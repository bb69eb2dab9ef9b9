"""Reductions and cumulative sums."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Shape, Spec
from dovetail.ops import BatchAxis, In, Op, Out, bool8, tensor, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, ints, need_axes, need_axis, need_float

# NumPy's cumulative sum goes along the axis element by element, away from the cache. Slices are
# added one to the other instead if they have so many elements, and these rows.
_LEAST_SLICE, _LEAST_ROW = 512, 8


def reduced(shape: Shape, axes: tuple[int, ...], keep_dims: bool) -> Shape:
    """Return a shape without some axes, or with size 1 there."""
    if keep_dims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def need_elements(x: Spec, axes: tuple[int, ...]) -> None:
    """Raise if there are no elements to reduce.

    Raises:
        OpError: An axis has size 0.
    """
    if any(x.shape[a] == 0 for a in axes):
        raise OpError(f"in[0] {x.shape} has no elements along axes {axes}")


class Reduction(Op):
    """An op that combines the elements along axes."""

    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.ANY

    axes = tensor((None,))
    keep_dims = bool8(False)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        axes = need_axes(self.axes, len(x.shape))
        return computed(x, reduced(x.shape, axes, self.keep_dims), out)

    def over_axes(self, reduce: Callable[..., Any], x: Array, **options: Any) -> Array:
        """Return the result of a NumPy reduction over `axes`."""
        return np.asarray(reduce(x, axis=ints(self.axes), keepdims=self.keep_dims, **options))


@PACKAGE.op("ReduceMean")
class ReduceMean(Reduction):
    """The mean over `axes`, which stay as 1 with keep_dims; integers truncate.

    Any shape. Over no elements the mean is NaN; integers have none, and this is an error.
    """

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        found: Spec = super().infer(x, out)
        if not found.dtype.is_float:
            need_elements(x, ints(self.axes))
        return found

    def reference(self, x: Array) -> Array:
        count = math.prod(x.shape[a] for a in ints(self.axes))
        mean: Array = self.over_axes(np.sum, x) / count  # as NumPy's mean, which warns of 0 / 0
        return mean


@PACKAGE.op("ReduceSum")
class ReduceSum(Reduction):
    """The sum over `axes`, which stay as 1 with keep_dims. Any shape."""

    def reference(self, x: Array) -> Array:
        return self.over_axes(np.sum, x, dtype=x.dtype)


@PACKAGE.op("ReduceProd")
class ReduceProd(Reduction):
    """The product over `axes`, which stay as 1 with keep_dims; 1 over no elements. Any shape."""

    def reference(self, x: Array) -> Array:
        return self.over_axes(np.prod, x, dtype=x.dtype)


@PACKAGE.op("ReduceSumSquare")
class ReduceSumSquare(Reduction):
    """The sum of squares over `axes`, which stay as 1 with keep_dims. Any shape.

    A scalar is squared, whatever the params are.
    """

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if not x.shape:
            return computed(x, (), out)
        found: Spec = super().infer(x, out)
        return found

    def reference(self, x: Array) -> Array:
        return self.over_axes(np.sum, x * x, dtype=x.dtype) if x.ndim else x * x


class _Extreme(Reduction):
    keeps = (0,)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        found: Spec = super().infer(x, out)
        need_elements(x, ints(self.axes))
        return found


@PACKAGE.op("ReduceMax")
class ReduceMax(_Extreme):
    """The largest element over `axes`, which stay as 1 with keep_dims.

    Any shape with elements. NaN if an element is NaN.
    """

    def reference(self, x: Array) -> Array:
        return self.over_axes(np.max, x)


@PACKAGE.op("ReduceMin")
class ReduceMin(_Extreme):
    """The smallest element over `axes`, which stay as 1 with keep_dims.

    Any shape with elements. NaN if an element is NaN.
    """

    def reference(self, x: Array) -> Array:
        return self.over_axes(np.min, x)


@PACKAGE.op("Moments")
class Moments(Op):
    """Mean and variance over `axes`, which stay as 1 with keep_dims.

    x: any shape, float or fixed-point, with elements along `axes`. The variance is that of the
    whole population: the mean of the squared distances from the mean.
    """

    inputs = (In("in[0]"),)
    outputs = (Out("out[0]"), Out("out[1]"))
    batch_axis = BatchAxis.ANY

    axes = tensor((None,), dtype=DType.INT_32)
    keep_dims = bool8()

    def infer(self, x: Spec, mean: Spec | None, variance: Spec | None) -> tuple[Spec, Spec]:
        need_float(x, "in[0]")
        axes = need_axes(self.axes, len(x.shape))
        need_elements(x, axes)
        shape = reduced(x.shape, axes, self.keep_dims)
        return computed(x, shape, mean), computed(x, shape, variance)

    def reference(self, x: Array) -> tuple[Array, Array]:
        axes = ints(self.axes)
        mean = x.mean(axis=axes, keepdims=True)
        variance = np.square(x - mean).mean(axis=axes, keepdims=True)
        shape = reduced(x.shape, axes, self.keep_dims)
        return mean.reshape(shape), variance.reshape(shape)


@PACKAGE.op("CumulativeSum")
class CumulativeSum(Op):
    """The sum of all elements up to each one along an axis.

    x: any shape but (), also of the result. With `exclusive` the element itself does not count, so
    that the first result is 0; with `reverse` sums start at the end.
    """

    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.ANY

    axis = uint32()
    exclusive = bool8(False)
    reverse = bool8(False)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_axis(self.axis, len(x.shape))
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        result = np.empty_like(x)
        self.sum_into(result, x)
        return result

    def sum_into(self, result: Array, x: Array) -> None:
        """Write the sums into an array of the shape and type of x."""
        # views with the axis first, in the order of summing
        source, target = (a.swapaxes(0, self.axis) for a in (x, result))
        if self.reverse:
            source, target = source[::-1], target[::-1]
        if self.exclusive:
            target[:1] = 0
            source, target = source[:-1], target[1:]
        row = math.prod(x.shape[self.axis + 1 :])
        if not len(source) or row < _LEAST_ROW or source[0].size < _LEAST_SLICE:
            np.add.accumulate(source, 0, x.dtype, target)
            return
        target[0] = source[0]
        for before, element, total in zip(target, source[1:], target[1:], strict=False):
            np.add(before, element, out=total)
