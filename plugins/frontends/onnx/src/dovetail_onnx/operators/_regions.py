"""Maxima of the samples of regions of interest, which no op computes."""

from __future__ import annotations

from functools import reduce

import numpy as np

from dovetail.ir import Array, DType, Shape, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, floor, maximum, minimum, value_of, whole
from dovetail_onnx.operators._parts import constant


def maximum_samples(
    op: OpContext, x: Tensor, bins: tuple[int, int], samples: int, *, half_pixel: bool
) -> Tensor:
    """Return (regions, rows, columns, c): the maximum that the samples of each bin touch.

    A sample is between four elements. ONNX takes the maximum of these, each times its weight in
    linear interpolation, and not of the interpolated values; so does its runtime.

    Args:
        op: The RoiAlign.
        x: Feature maps, (n, h, w, c).
        bins: Rows and columns that a region is divided into.
        samples: In each bin, along each axis.
        half_pixel: Whether elements are in the middle of pixels.
    """
    images, height, width, channels = x.shape
    regions, rows, columns = op.spec(1).shape[0], bins[0] * samples, bins[1] * samples
    flat = Expr(op, x).reshaped((images * height * width, channels))
    image = value_of(op, 2).cast(DType.INT_32)
    first = _shaped(op, image, (regions, 1, 1)) * (height * width)
    corners = []
    for row, above in _sides(op, 1, height, rows, half_pixel=half_pixel):
        line = first + _shaped(op, row, (regions, rows, 1)) * width
        above = _shaped(op, above, (regions, rows, 1, 1))
        for column, beside in _sides(op, 0, width, columns, half_pixel=half_pixel):
            place = line + _shaped(op, column, (regions, 1, columns))
            weight = above * _shaped(op, beside, (regions, 1, columns, 1))
            corners.append(flat.step("Gather", place, axis=0) * weight)
    window = (samples, samples)
    return (
        reduce(maximum, corners)
        .step("PoolMax2d", filter_size=window, stride=window, pad_amount=((0, 0), (0, 0)))
        .tensor
    )


def _sides(
    op: OpContext, column: int, length: int, samples: int, *, half_pixel: bool
) -> list[tuple[Expr, Expr]]:
    """Return (regions, samples) of the elements before and after each sample, with their weights.

    Args:
        op: The RoiAlign.
        column: The column of the regions with their begins; the next but one has their ends.
        length: Size of the feature maps along this axis.
        samples: The number of samples of a region along it.
        half_pixel: Whether elements are in the middle of pixels.
    """
    start, end = (_edge(op, at, half_pixel=half_pixel) for at in (column, column + 2))
    size = end - start if half_pixel else maximum(end - start, 1)
    shares: Array = ((np.arange(samples) + 0.5) / samples)[None]
    place = size * shares + start
    weight = ((place >= -1) & (place <= length)).cast(place.dtype)  # 0 outside
    place = minimum(maximum(place, 0), length - 1)
    low = floor(place)
    high = minimum(low + 1, length - 1)
    behind = (place - low) * weight
    return [(whole(low), weight - behind), (whole(high), behind)]


def _edge(op: OpContext, column: int, *, half_pixel: bool) -> Expr:
    """Return the begins or ends of regions, (regions, 1), in elements of the feature maps."""
    at = constant(op, f"column{column}", np.array([column]), DType.INT_64)
    edge = value_of(op, 1).apply("Gather", at, axis=1) * op.attr.number("spatial_scale", 1.0)
    return edge - 0.5 if half_pixel else edge


def _shaped(op: OpContext, x: Expr, shape: Shape) -> Expr:
    return x.apply("Reshape", constant(op, "shape", np.array(shape), DType.INT_64))
