"""Regions of interest: features extracted from feature maps, all at the same size."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op, Out, bool8, int32, tensor
from dovetail_opset._boxes import need_box_rows, need_images
from dovetail_opset._indices import need_integers
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import (
    computed,
    need_encoding,
    need_float,
    need_numbers,
    need_rank,
    need_shape,
)

# Number of positions and weights along an axis that are computed together.
_AT_ONCE = 1 << 20
# More samples than this along an axis of a bin indicate invalid regions.
_MOST_SAMPLES = 1 << 16
# Corners farther out than any feature map reaches; positions in bins stay countable.
_FARTHEST = 1 << 30


class _Regions(Op):
    img_size_ratio = tensor((2,), dtype=DType.FLOAT_32)

    def infer(self, x: Spec, rois: Spec, batch: Spec, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        count = need_box_rows(rois, "in[1]")
        need_shape(batch, (count,), "in[2]")
        need_integers(batch, "in[2]")
        need_numbers(x, rois)
        if not np.all(self.img_size_ratio > 0):
            raise OpError(f"img_size_ratio must be above 0, got {self.img_size_ratio.tolist()}")
        if out is None:
            raise OpError(
                "the height and width of the output are unknown",
                hint=f"declare the output as ({count}, height, width, {x.shape[3]})",
            )
        if len(out.shape) != 4:
            raise OpError(f"out[0] must have rank 4, but its shape is declared {out.shape}")
        return computed(x, (count, *out.shape[1:3], x.shape[3]), out)

    def _scaled(self, rois: Array) -> tuple[Array, Array]:
        """Return low and high corners, (n, 2), y before x, in elements of the feature map."""
        scaled = rois[:, [1, 0, 3, 2]] / np.tile(self.img_size_ratio, 2)
        return scaled[:, :2], scaled[:, 2:]


@PACKAGE.op("RoiAlign")
class RoiAlign(_Regions):
    """The mean of samples in each bin of a grid over each region, without rounding.

    x: (n, h, w, c); rois: (r, 4), rows x1, y1, x2, y2 in the image, whose size is img_size_ratio
    (vertical, horizontal) times that of the feature map; batch index: (r,), integers. Returns (r,
    oh, ow, c), as the output declares. A region is at least one element high and wide; with
    `aligned` it may be smaller, and is shifted by half an element, since pixels are centered there.

    A bin has num_samples_y times num_samples_x samples, evenly spread; for 0 or less, the size of
    the bin rounded up. A sample is bilinear between four elements; up to one element beyond the
    border it has the border's value, farther out 0. A region with x2 < x1 or y2 < y1 is an error
    unless allow_invalid_roi is set; then the formulas apply, and a negative number of samples
    counts as none, which results in 0. The results of a region with NaN are NaN.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]"))
    source = "spec/qnn_ops.md, RoiAlign; He et al. 2017, Mask R-CNN; NNAPI ROI_ALIGN"

    num_samples_y = int32(-1)
    num_samples_x = int32(-1)
    aligned = bool8(False)
    allow_invalid_roi = bool8(False)

    def infer(self, x: Spec, rois: Spec, batch: Spec, out: Spec | None) -> Spec:
        need_float(x, "in[0]")
        need_encoding(x, "in[0]")
        return super().infer(x, rois, batch, out)

    def reference(self, x: Array, rois: Array, batch: Array, out: Spec) -> Array:
        images = need_images(batch, len(x))
        if not self.allow_invalid_roi:
            _need_valid(rois)
        result = np.zeros(out.shape, x.dtype)
        if 0 in out.shape or 0 in x.shape:
            return result
        low, high = self._scaled(rois)
        size = high - low if self.aligned else np.maximum(high - low, 1)
        start = low - 0.5 if self.aligned else low
        bins = size / np.array(out.shape[1:3], low.dtype)
        samples = self._samples(bins)
        longest = max(int(samples.max(initial=0)), *x.shape[1:3]) * max(out.shape[1:3])
        parts = max(1, min(len(rois), -(-len(rois) * longest // _AT_ONCE)))
        for part in np.array_split(np.arange(len(rois)), parts):
            weights = [
                _weights(start[part, k], bins[part, k], samples[part, k], out.shape[1 + k], n)
                for k, n in enumerate(x.shape[1:3])
            ]
            _add_weighted(x, images[part], weights, result[part[0] : part[-1] + 1])
        result[np.isnan(rois).any(axis=1)] = np.nan
        return result

    def _samples(self, bins: Array) -> Array:
        given = np.array([self.num_samples_y, self.num_samples_x])
        found = np.where(given > 0, given, np.ceil(bins))
        if np.any(found > _MOST_SAMPLES):
            i = int(np.flatnonzero((found > _MOST_SAMPLES).any(axis=1))[0])
            raise OpError(
                f"region {i} of in[1] is so large that a bin would have {found[i].max():.0f} "
                "samples along an axis",
                hint="set num_samples_y and num_samples_x, or check what computes the regions",
            )
        counts: Array = np.maximum(np.nan_to_num(found), 0).astype(np.int64)
        return counts


def _weights(start: Array, bins: Array, samples: Array, count: int, length: int) -> Array:
    """Return the weights of the elements of an axis in each bin, (r, count, length).

    Samples are on a grid, so that a bin's mean is a weighted sum over rows of weighted sums over
    columns.

    Args:
        start: (r,), begin of the first bin.
        bins: (r,), width of a bin.
        samples: (r,), number of samples of a bin.
        count: Number of bins.
        length: Elements of the feature map.
    """
    sample, divisor = np.arange(samples.max(initial=0)), np.maximum(samples, 1)[:, None]
    steps = np.arange(count)[:, None] + ((sample + 0.5) / divisor)[:, None]
    position = start[:, None, None] + bins[:, None, None] * steps
    counts = (sample < samples[:, None])[:, None] & (position >= -1) & (position <= length)
    position = np.clip(np.where(counts, position, 0), 0, length - 1)
    low = np.floor(position).astype(np.int64)
    high, weight = np.minimum(low + 1, length - 1), counts / divisor[:, None]
    base = np.arange(len(start) * count).reshape(len(start), count, 1) * length
    size = len(start) * count * length
    result = np.bincount((base + low).ravel(), ((low + 1 - position) * weight).ravel(), size)
    result += np.bincount((base + high).ravel(), ((position - low) * weight).ravel(), size)
    return result.reshape(len(start), count, length)


def _add_weighted(x: Array, images: Array, weights: Sequence[Array], result: Array) -> None:
    """Set the weighted sums over rows and columns of regions.

    Args:
        x: (n, h, w, c).
        images: (r,), the image of each region.
        weights: Those of rows, (r, oh, h), and of columns, (r, ow, w).
        result: (r, oh, ow, c).
    """
    down, across = (each.astype(x.dtype) for each in weights)
    ends = zip(_spans(down), _spans(across), strict=True)
    for i, ((top, bottom), (left, right)) in enumerate(ends):
        used = x[images[i], top:bottom, left:right]
        sums = (across[i, :, left:right] @ used).reshape(bottom - top, result[i, 0].size)
        np.matmul(down[i, :, top:bottom], sums, out=result[i].reshape(len(result[i]), -1))
    is_finite = np.isfinite(result.reshape(len(result), -1)).all(axis=1)
    for i in np.flatnonzero(~is_finite).tolist():
        # 0 * inf is nan: an element that is not finite must reach only the bins it is in
        for j, k in np.ndindex(result.shape[1:3]):
            rows, columns = np.flatnonzero(down[i, j]), np.flatnonzero(across[i, k])
            bin_ = x[images[i]][rows[:, None], columns]
            result[i, j, k] = np.einsum("h,hwc,w->c", down[i, j, rows], bin_, across[i, k, columns])


def _spans(weights: Array) -> list[tuple[int, int]]:
    """Return begin and end of the elements with a weight in any bin of each region."""
    used: Array = np.any(weights, axis=1)
    begins, ends = used.argmax(axis=1), weights.shape[2] - used[:, ::-1].argmax(axis=1)
    return list(zip(begins.tolist(), np.where(np.any(used, axis=1), ends, 0).tolist(), strict=True))


def _need_valid(rois: Array) -> None:
    wrong = np.flatnonzero((rois[:, 2:] < rois[:, :2]).any(axis=1))
    if wrong.size:
        raise OpError(
            f"region {wrong[0]} of in[1] is {rois[wrong[0]].tolist()}, but x2 and y2 must not be "
            "less than x1 and y1",
            hint="set allow_invalid_roi to take such regions",
        )


@PACKAGE.op("RoiPooling")
class RoiPooling(_Regions):
    """The largest element in each bin of a grid over each region.

    x: (n, h, w, c); rois: (r, 4), rows x1, y1, x2, y2 in the image, whose size is img_size_ratio
    (vertical, horizontal) times that of the feature map; batch index: (r,), UINT_32. Returns (r,
    oh, ow, c), as the output declares. Corners are rounded to elements, halves away from 0, and
    both belong to the region, which is at least one element high and wide. A bin covers all
    elements that it touches; a bin wholly outside the feature map is 0. The results of a region
    with NaN are NaN in a float type.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", (DType.UINT_32,)))
    outputs = (Out("out[0]"),)
    source = "spec/qnn_ops.md, RoiPooling; Girshick 2015, Fast R-CNN; NNAPI ROI_POOLING"

    def reference(self, x: Array, rois: Array, batch: Array, out: Spec) -> Array:
        images = need_images(batch, len(x))
        corners = np.nan_to_num(np.concatenate(self._scaled(rois), axis=1))
        corners = np.clip(corners, -_FARTHEST, _FARTHEST)
        rounded = np.copysign(np.floor(np.abs(corners) + 0.5), corners).astype(np.int64)
        result = np.zeros(out.shape, x.dtype)
        for i, image in enumerate(images):
            top, left, bottom, right = rounded[i].tolist()
            rows = _bins(top, bottom, out.shape[1], x.shape[1])
            columns = _bins(left, right, out.shape[2], x.shape[2])
            result[i] = _maximum(_maximum(x[image], rows, 0), columns, 1)
        if result.dtype.kind == "f":
            result[np.isnan(rois).any(axis=1)] = np.nan
        return result


def _bins(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
    """Return begin and end of each bin over elements first to last, clipped to the axis."""
    positions = np.arange(count + 1) * max(last - first + 1, 1)
    begins = np.clip(positions[:-1] // count + first, 0, size)
    stops = np.clip(-(-positions[1:] // count) + first, 0, size)
    return list(zip(begins.tolist(), stops.tolist(), strict=True))


def _maximum(x: Array, bins: list[tuple[int, int]], axis: int) -> Array:
    """Return the maximum of each bin along an axis; 0 for an empty one."""
    shape = (*x.shape[:axis], 0, *x.shape[axis + 1 :])
    if not bins:
        return np.zeros(shape, x.dtype)
    moved = np.moveaxis(x, axis, 0)
    empty = np.zeros(moved.shape[1:], x.dtype)
    found = [moved[begin:end].max(axis=0) if begin < end else empty for begin, end in bins]
    return np.stack(found, axis=axis)
