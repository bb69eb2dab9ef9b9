"""Softmax and related ops."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
from typing import cast

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import BatchAxis, In, Op, choice, float32, last_axis, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import (
    computed,
    need_axis,
    need_encoding,
    need_float,
    need_rank,
    need_shape,
)


def shifted(x: Array, axis: int, beta: float) -> Array:
    """Return beta * x less its maximum along an axis: at most 0, so that no power overflows."""
    # a negative beta makes the smallest element the largest
    extreme = np.max if beta >= 0 else np.min
    start = -np.inf if beta >= 0 else np.inf
    most = extreme(x, axis=axis, keepdims=True, initial=start)
    return cast(Array, beta * (x - most))


class _Softmax(Op):
    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.ANY

    axis = uint32(last_axis)
    beta = float32(1.0)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_float(x, "in[0]")
        need_encoding(x, "in[0]")
        need_axis(self.axis, len(x.shape))
        return computed(x, x.shape, out)


@PACKAGE.op("Softmax")
class Softmax(_Softmax):
    """exp(beta * (x - max)) over its sum, along an axis.

    Any shape but (); returns the shape of x. A NaN makes all results along the axis NaN. The result
    of a fixed-point x may be a float.
    """

    value_range = (0.0, 1.0)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        found = super().infer(x, out)
        if out is not None and x.dtype.is_fixed_point and out.dtype.is_float:
            return Spec(out.dtype, x.shape)
        return found

    def reference(self, x: Array) -> Array:
        powers = np.exp(shifted(x, self.axis, self.beta))
        return cast(Array, powers / powers.sum(axis=self.axis, keepdims=True))


@PACKAGE.op("LogSoftmax")
class LogSoftmax(_Softmax):
    """The logarithm of Softmax, computed without Softmax.

    Any shape but (); returns the shape of x. A NaN makes all results along the axis NaN.
    """

    axis = uint32()

    def reference(self, x: Array) -> Array:
        scaled = shifted(x, self.axis, self.beta)
        found: Array = scaled - np.log(np.exp(scaled).sum(axis=self.axis, keepdims=True))
        return found


class MaskMode(enum.IntEnum):
    """Content of the mask of MaskedSoftmax."""

    UNCOMPRESSED = 0
    COMPRESSED = 1


@PACKAGE.op("MaskedSoftmax")
class MaskedSoftmax(Op):
    """Softmax along the last axis with some elements of each row masked out.

    x: (b, h, w, c), also of the result. UNCOMPRESSED: mask is (b, c), added to every row: 0 keeps
    an element, -10000 drops it. COMPRESSED: mask is (b, m), the lengths of the sequences that
    follow each other in the w == c elements of a batch item, 0 for none; row i is a softmax over
    the elements of the sequence of element i. Elements after the last sequence belong to none:
    their rows are 0.
    """

    inputs = (In("in[0]"), In("in[1]"))
    value_range = (0.0, 1.0)

    mode = choice(MaskMode, MaskMode.UNCOMPRESSED)

    def infer(self, x: Spec, mask: Spec, out: Spec | None) -> Spec:
        need_float(x, "in[0]")
        need_encoding(x, "in[0]")
        need_rank(x, 4, "in[0]")
        batch, _, width, channels = x.shape
        if self.mode is MaskMode.UNCOMPRESSED:
            need_shape(mask, (batch, channels), "the mask in[1]")
            return computed(x, x.shape, out)
        need_rank(mask, 2, "the lengths in[1]")
        if mask.shape[0] != batch:
            raise OpError(
                f"the lengths in[1] {mask.shape} must have one row for each of {batch} batch items"
            )
        if width != channels:
            raise OpError(
                f"in[0] {x.shape} has {width} rows of {channels} elements; a COMPRESSED mask needs "
                "as many rows as elements"
            )
        return computed(x, x.shape, out)

    def reference(self, x: Array, mask: Array) -> Array:
        if self.mode is MaskMode.UNCOMPRESSED:
            powers = np.exp(shifted(x + mask[:, None, None, :].astype(x.dtype), 3, 1.0))
            return cast(Array, powers / powers.sum(axis=3, keepdims=True))
        owners = _owners(mask, x.shape[3])
        same = (owners[:, :, None] == owners[:, None, :]) & (owners[:, :, None] >= 0)
        kept = np.where(same[:, None], x, x.dtype.type(-np.inf))
        most = kept.max(axis=3, keepdims=True, initial=-np.inf)
        powers = np.exp(kept - np.where(np.isneginf(most), 0, most))
        total = powers.sum(axis=3, keepdims=True)
        return cast(Array, powers / np.where(same.any(axis=2)[:, None, :, None], total, 1))


def _owners(lengths: Array, count: int) -> Array:
    """Return the index of the sequence of each of `count` elements, -1 for none."""
    if np.any(lengths != np.trunc(lengths)) or np.any(lengths < 0):
        raise OpError(f"the lengths in[1] must be integers of 0 or more, but are\n{lengths}")
    ends = np.cumsum(lengths.astype(np.int64), axis=1)
    longest = int(ends[:, -1:].max(initial=0))
    if longest > count:
        raise OpError(
            f"the lengths in[1] of a batch item add up to {longest}, but a row of in[0] has "
            f"{count} elements"
        )
    owners = (ends[:, None, :] <= np.arange(count)[None, :, None]).sum(axis=2)
    return np.where(owners < lengths.shape[1], owners, -1)
