"""Pieces of images: patches at regular steps, and glimpses at positions that are data."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import BatchAxis, In, Op, bool8, choice, tensor
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, ints, need_rank, need_shape
from dovetail_opset._windows import Window


class PatchPadding(enum.IntEnum):
    """Windows: only those inside the image, or one at every step."""

    VALID = 0
    SAME = 1


class Noise(enum.IntEnum):
    """Content of a glimpse beyond the image."""

    UNIFORM = 0
    GAUSSIAN = 1
    ZEROES = 2


@PACKAGE.op("ExtractPatches")
class ExtractPatches(Op):
    """Windows of an image, flattened into the channels, as in TensorFlow.

    x: (n, h, w, c). Returns (n, oh, ow, kh * kw * c), the channels in the order (row, column,
    channel) of the window, whose elements are `rate` apart. VALID has floor((in - span) / stride) +
    1 windows along an axis, SAME ceil(in / stride), with zeros around; of an odd number of zeros
    one more is at the end.
    """

    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.FIRST

    size = tensor((2,))
    stride = tensor((2,))
    rate = tensor((2,))
    padding = choice(PatchPadding)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        n, height, width, channels = x.shape
        window = self.window(height, width)
        made = channels * window.size[0] * window.size[1]
        return computed(x, (n, *window.outputs((height, width)), made), out)

    def reference(self, x: Array, out: Spec) -> Array:
        if 0 in out.shape:
            return np.zeros(out.shape, x.dtype)
        window = self.window(*x.shape[1:3])
        views = window.views(window.padded(x))  # (n, oh, ow, c, kh, kw)
        return views.transpose(0, 1, 2, 4, 5, 3).reshape(out.shape)

    def window(self, height: int, width: int) -> Window:
        """Return the sliding window over an image of this size."""
        window = Window.of(self.size, self.stride, np.zeros((2, 2), np.uint32), self.rate)
        if self.padding is PatchPadding.VALID:
            return window
        pads = []
        for size, step, span in zip((height, width), window.stride, window.spans, strict=True):
            total = max((-(-size // step) - 1) * step + span - size, 0)
            pads.append((total // 2, total - total // 2))
        return Window.of(self.size, self.stride, np.array(pads), self.rate)


@PACKAGE.op("ExtractGlimpse")
class ExtractGlimpse(Op):
    """A window of each image around a given position, as in TensorFlow 2.

    x: (n, h, w, c); offsets: (n, 2), rows (y, x). Returns (n, gh, gw, c). With `centered` an offset
    is the window's center, relative to the image's; else its first element, relative to the
    image's. With `normalized` it is in image sizes: -1 and 1 are the borders if centered, 0 and 1
    if not. Fractions of an element are truncated; NaN is beyond the image. Beyond the image a
    window holds zeros, or noise with the range (UNIFORM) or the mean and deviation (GAUSSIAN) of
    that image, new in every run.
    """

    inputs = (In("in[0]"), In("in[1]"))
    is_pure = False  # whatever the noise: folding reads it before it knows the params

    size = tensor((2,), dtype=DType.INT_32)
    centered = bool8(True)
    normalized = bool8(True)
    noise = choice(Noise, Noise.UNIFORM, dtype=DType.INT_32)

    def infer(self, x: Spec, offsets: Spec, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        need_shape(offsets, (x.shape[0], 2), "the offsets in[1]")
        size = ints(self.size)
        if min(size) < 1:
            raise OpError(f"a glimpse must have a size of at least 1 x 1, but size is {size}")
        return computed(x, (x.shape[0], *size, x.shape[3]), out)

    def reference(self, x: Array, offsets: Array, out: Spec) -> Array:
        sizes, size = np.array(x.shape[1:3]), np.array(ints(self.size))
        # a window farther away than the image's size contains nothing of it
        begins = np.trunc(np.clip(self._begins(offsets, sizes, size), -size, sizes))
        found = np.empty(out.shape, x.dtype)
        for image, glimpse, begin in zip(x, found, begins.astype(np.intp), strict=True):
            low, high = np.maximum(begin, 0), np.minimum(begin + size, sizes)
            inside = tuple(slice(a, max(a, b)) for a, b in zip(low, high, strict=True))
            position = tuple(
                slice(s.start - b, s.stop - b) for s, b in zip(inside, begin, strict=True)
            )
            if ((begin < 0) | (begin + size > sizes)).any():
                glimpse[...] = self._beyond(image, glimpse.shape)
            glimpse[position] = image[inside]
        return found

    def _begins(self, offsets: Array, sizes: Array, size: Array) -> Array:
        """Return the begin of each glimpse, (n, 2), with fractions."""
        begins = offsets.astype(np.result_type(offsets.dtype, np.float32))
        if self.normalized:
            begins = begins * sizes / (2 if self.centered else 1)
        if self.centered:
            begins = begins + (sizes - size) / 2
        return np.asarray(np.nan_to_num(begins, nan=np.inf))

    def _beyond(self, image: Array, shape: tuple[int, ...]) -> Array:
        if self.noise is Noise.ZEROES or not image.size:
            return np.zeros(shape, image.dtype)
        draw = np.random.default_rng()
        if self.noise is Noise.UNIFORM:
            drawn = draw.uniform(float(image.min()), float(image.max()), shape)
        else:
            drawn = draw.normal(float(image.mean()), float(image.std()), shape)
        return drawn.astype(image.dtype)
