"""Resizing: one of QNN's resize ops if it computes exactly the same, else products and gathers.

The ops with the fewest options come first: more backends run them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dovetail.ir import Array, DType, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._resampling import Line, Style, line_of
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._targets import axes_of, targets
from dovetail_opset.importing.constant import Result
from dovetail_opset.importing.layout import reshaped, spatial_input, spatial_output
from dovetail_opset.ops.resize import Interpolation, Resize, ResizeBilinear, ResizeNearestNeighbor
from dovetail_opset.perms import to_last
from dovetail_opset.resampling import Coordinates, Nearest

_CONSTANT = 0  # Pad's scheme
# The source of each element of an axis is a table, computed for inputs of any size.
_MOST_ALONG_AXIS = 2**20
# The weights of an element are compared with those of some ten ops: as long as moving these bytes.
_TIME_OF_ELEMENT = 4096
Params = dict[str, Any]


@ONNX.importer("Upsample", versions=(7, 9))
def upsample(op: OpContext) -> Result:
    """Resizing to larger sizes by a single mode."""
    return _resized(op, Style.of(op))


@ONNX.importer("Resize", versions=(10, 11, 13, 18, 19))
def resize(op: OpContext) -> Result:
    """Resizing by known scales or to known sizes."""
    return _resized(op, Style.of(op))


def _resized(op: OpContext, style: Style) -> Result:
    shape = op.spec(0).shape
    new = targets(op, shape)
    op.check_size(tuple(extent for extent, _ in new))
    if max(*shape, *(count for count, _ in new), 0) > _MOST_ALONG_AXIS:
        raise op.invalid(
            f"cannot resize {shape} to {tuple(n for n, _ in new)}; the maximum is "
            f"{_MOST_ALONG_AXIS} "
            "elements along an axis"
        )
    _claim_time(op, shape, [count for count, _ in new])
    if 0 in shape or any(not extent for extent, _ in new):
        raise op.unsupported(
            f"cannot resize {shape} to {tuple(n for n, _ in new)}: there are no elements"
        )
    regions = _regions(op, style, len(shape))
    lines = [
        line_of(style, extent, count, scale, region)
        for extent, (count, scale), region in zip(shape, new, regions, strict=True)
    ]
    changed = {axis: line for axis, line in enumerate(lines) if line.is_changed}
    if not changed:
        return op.value(0)
    if any(not line.inside for line in changed.values()):
        # no element of the input is used
        value = np.asarray(style.extrapolation, op.spec(0).dtype.storage)
        return np.full([count for count, _ in new], value)
    if min(changed) < 2:
        y = _steps(op, style, op.tensor(0), changed)
        y.source = op.node.outputs[0]
        return y
    return _spatial(op, style, changed)


def _claim_time(op: OpContext, shape: Shape, new: Sequence[int]) -> None:
    """Count the time to compare the node with the ops along all axes."""
    elements = sum(max(pair) for pair in zip(shape, new, strict=True) if pair[0] != pair[1])
    if not op.budget.has(0, elements * _TIME_OF_ELEMENT):
        raise op.invalid(
            f"resizing {shape} to {tuple(new)} takes too long to convert together with what other "
            "nodes take"
        )


def _regions(op: OpContext, style: Style, rank: int) -> list[tuple[float, float]]:
    """Return the region of interest along each axis, if the node has one."""
    found = [(0.0, 1.0)] * rank
    if style.coordinates != "tf_crop_and_resize":
        return found
    axes = axes_of(op, rank)
    given = op.need_constant(1, "region of interest").astype(np.float64).reshape(-1)
    if len(given) != 2 * len(axes):
        raise op.invalid(f"roi must have {2 * len(axes)} numbers, got {len(given)}")
    for axis, begin, end in zip(axes, given, given[len(axes) :], strict=False):
        found[axis] = (float(begin), float(end))
    return found


def _spatial(op: OpContext, style: Style, changed: Mapping[int, Line]) -> Tensor:
    """Resize the spatial axes by a channels-last op."""
    rank = len(op.spec(0).shape)
    x = spatial_input(op) if rank in (3, 4) else op.arranged(0, to_last(rank))
    # axis i of (n, c, ...) is now i - 1; that of (n, c, w) stays 2, after one of size 1
    moved = {axis - (rank != 3): line for axis, line in changed.items()}
    for op_type, params in _candidates(style, len(x.shape)):
        if not any(map(_is_padded, moved.values())) and _means(op_type, params, moved):
            new = tuple(moved[i].inside if i in moved else n for i, n in enumerate(x.shape))
            y = op.step("channels_last", op_type, [x], spec=Spec(x.dtype, new), **params)
            return spatial_output(op, y, rank)
    return spatial_output(op, _steps(op, style, x, moved), rank)


def _is_padded(line: Line) -> bool:
    return line.pads != (0, 0)


def _candidates(style: Style, rank: int) -> Iterator[tuple[str, Params]]:
    """Yield candidate ops, the most widely supported first."""
    if rank == 4 and style.mode != "cubic":
        name = "ResizeNearestNeighbor" if style.mode == "nearest" else "ResizeBilinear"
        flags: list[Params] = [{"half_pixel_centers": True}, {"align_corners": True}, {}]
        for flag in flags:
            yield name, flag
        for flag in flags if style.antialias else ():
            yield name, {**flag, "antialias": True}
    params: Params = {"interpolation_mode": Interpolation[style.mode.upper()]}
    if style.mode == "cubic":
        params |= {"cubic_coeff": style.cubic_coeff, "exclude_outside": style.exclude_outside}
    rounding = Nearest if style.mode == "nearest" else (None,)
    for coordinates, nearest in itertools.product(Coordinates, rounding):
        own = {} if nearest is None else {"nearest_mode": nearest}
        yield "Resize", {**params, "transformation_mode": coordinates, **own}


_OPS: dict[str, type[Resize | ResizeBilinear | ResizeNearestNeighbor]] = {
    "Resize": Resize,
    "ResizeBilinear": ResizeBilinear,
    "ResizeNearestNeighbor": ResizeNearestNeighbor,
}


def _means(op_type: str, params: Params, lines: Mapping[int, Line]) -> bool:
    """Return whether an op resizes each axis exactly as the node does."""
    found = _OPS[op_type]((), **params)
    return all(
        found.taps(line.length, line.inside).equals(line.taps, line.length)
        for line in lines.values()
    )


def _steps(op: OpContext, style: Style, x: Tensor, lines: Mapping[int, Line]) -> Tensor:
    """Resize axis by axis: a gather, or the product with a matrix of weights."""
    dtype = x.dtype
    weighted = any(line.taps.weights is not None for line in lines.values())
    if weighted and not dtype.is_float:
        x = op.step("real", "Cast", [x], spec=Spec(DType.FLOAT_32, x.shape))
    for axis, line in lines.items():
        if not line.taps.is_identity(line.length):
            x = (
                _gathered(op, x, axis, line)
                if line.taps.weights is None
                else (_multiplied(op, x, axis, line))
            )
    if x.dtype is not dtype:
        x = op.step("cut", "Cast", [x], spec=Spec(dtype, x.shape))
    if any(map(_is_padded, lines.values())):
        pads = [lines[i].pads if i in lines else (0, 0) for i in range(len(x.shape))]
        params: Params = {"pad_amount": pads, "pad_constant_value": style.extrapolation}
        x = op.step("outside", "Pad", [x], scheme=_CONSTANT, **params)
    return x


def _gathered(op: OpContext, x: Tensor, axis: int, line: Line) -> Tensor:
    indices = op.static(f"indices{axis}", line.taps.indices[:, 0], DType.INT_32)
    return op.step(f"axis{axis}", "Gather", [x, indices], axis=axis)


def _multiplied(op: OpContext, x: Tensor, axis: int, line: Line) -> Tensor:
    op.reserve_constant((line.inside, line.length))
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    shape = (*x.shape[:axis], line.inside, *x.shape[axis + 1 :])
    flat = reshaped(op, f"flat{axis}", x, (before, line.length, after))
    weights: Array = line.taps.matrix(line.length)[None]
    matrix = op.static(f"weights{axis}", weights.astype(x.dtype.storage), x.dtype)
    product = op.step(f"product{axis}", "MatMul", [matrix, flat])
    return reshaped(op, f"axis{axis}", product, shape)
