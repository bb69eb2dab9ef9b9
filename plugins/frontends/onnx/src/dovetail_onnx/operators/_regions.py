"""Maxima of the samples of regions of interest, which no op computes."""

from __future__ import annotations

from functools import reduce

import numpy as np

from dovetail.ir import DType, Shape, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import ELEMENT_TYPES
from dovetail_onnx._registry import Value
from dovetail_onnx.operators._layout import reshaped
from dovetail_onnx.operators._parts import apply_operator, constant

_Sides = list[tuple[Value, Value]]


def greatest_samples(
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
    flat = reshaped(op, "flat", x, (images * height * width, channels))
    image = _shaped(op, _whole(op, op.value(2)), (regions, 1, 1))
    first = _times(op, image, height * width)
    corners = []
    for row, above in _sides(op, 1, height, rows, bins[0], half_pixel=half_pixel):
        start = _times(op, _shaped(op, row, (regions, rows, 1)), width)
        line = apply_operator(op, "line", "Add", [first, start])
        above = _shaped(op, above, (regions, rows, 1, 1))
        for column, beside in _sides(op, 0, width, columns, bins[1], half_pixel=half_pixel):
            offset = _shaped(op, column, (regions, 1, columns))
            place = apply_operator(op, "place", "Add", [line, offset])
            weights = [above, _shaped(op, beside, (regions, 1, columns, 1))]
            weight = apply_operator(op, "weight", "Mul", weights)
            element = op.step("element", "Gather", [flat, op.as_tensor(place)], axis=0)
            corners.append(op.as_tensor(apply_operator(op, "corner", "Mul", [element, weight])))
    greatest = reduce(lambda a, b: op.step("greater", "ElementWiseMaximum", [a, b]), corners)
    window = (samples, samples)
    return op.step(
        "greatest",
        "PoolMax2d",
        [greatest],
        filter_size=window,
        stride=window,
        pad_amount=((0, 0), (0, 0)),
    )


def _sides(
    op: OpContext, column: int, length: int, samples: int, bins: int, *, half_pixel: bool
) -> _Sides:
    """Return (regions, samples) of the elements before and after each sample, with their weights.

    Args:
        op: The RoiAlign.
        column: The column of the regions with their begins; the next but one has their ends.
        length: Size of the feature maps along this axis.
        samples: The number of samples of a region along it.
        bins: Number of bins of a region along it.
        half_pixel: Whether elements are in the middle of pixels.
    """
    dtype = op.spec(1).dtype

    def made(op_type: str, a: Value, b: Value | float) -> Value:
        suffix = f"{op_type.lower()}{column}"
        other = constant(op, f"{suffix}.by", np.float32(b), dtype) if isinstance(b, float) else b
        return apply_operator(op, suffix, op_type, [a, other])

    start, end = (_edge(op, at, half_pixel=half_pixel) for at in (column, column + 2))
    size = made("Sub", end, start)
    size = size if half_pixel else made("Max", size, 1.0)
    shares = ((np.arange(samples, dtype=np.float64) + 0.5) / samples)[None]
    share = constant(op, f"shares{column}", shares, dtype)
    place = made("Add", made("Mul", size, share), start)
    bounds = [made("GreaterOrEqual", place, -1.0), made("LessOrEqual", place, float(length))]
    inside = apply_operator(op, "inside", "And", bounds)
    whole = apply_operator(op, "counted", "Cast", [inside], to=ELEMENT_TYPES[dtype])
    place = made("Min", made("Max", place, 0.0), float(length - 1))
    low = apply_operator(op, "low", "Floor", [place])
    high = made("Min", made("Add", low, 1.0), float(length - 1))
    behind = made("Mul", made("Sub", place, low), whole)
    before = made("Sub", whole, behind)
    return [(_whole(op, low), before), (_whole(op, high), behind)]


def _edge(op: OpContext, column: int, *, half_pixel: bool) -> Value:
    """Return the begins or ends of regions, (regions, 1), in elements of the feature maps."""
    dtype = op.spec(1).dtype
    at = constant(op, f"column{column}", np.array([column]), DType.INT_64)
    edge = apply_operator(op, "edge", "Gather", [op.value(1), at], axis=1)
    scale = constant(op, "scale", np.float32(op.attr.number("spatial_scale", 1.0)), dtype)
    edge = apply_operator(op, "scaled", "Mul", [edge, scale])
    if not half_pixel:
        return edge
    return apply_operator(
        op, "shifted", "Sub", [edge, constant(op, "half", np.float32(0.5), dtype)]
    )


def _whole(op: OpContext, value: Value) -> Value:
    return apply_operator(op, "whole", "Cast", [value], to=ELEMENT_TYPES[DType.INT_32])


def _times(op: OpContext, value: Value, factor: int) -> Value:
    return apply_operator(op, "times", "Mul", [value, constant(op, "factor", factor, DType.INT_32)])


def _shaped(op: OpContext, value: Value, shape: Shape) -> Value:
    wanted = constant(op, "shape", np.array(shape), DType.INT_64)
    return apply_operator(op, "shaped", "Reshape", [value, wanted])
