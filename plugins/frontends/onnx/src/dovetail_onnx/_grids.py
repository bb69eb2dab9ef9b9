"""Grids of constants that a model stores as integers and dequantizes before use.

Such constants are computed at import, and the integers would be lost. Their grid recovers them;
it stays with the values as long as these are only moved.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dovetail.errors import QuantizationError
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    DType,
    Encoding,
    ScaleOffset,
    Shape,
    Spec,
)
from dovetail_onnx._attributes import Attributes
from dovetail_onnx._dtypes import PACKED_RANGES
from dovetail_onnx._source import SourceNode
from dovetail_opset.importing.constant import Constant

# Types of integers that may have a grid.
_STORED = (DType.INT_8, DType.UINT_8, DType.INT_16, DType.UINT_16, DType.INT_32)
# Of a block: each is a sum of its own at run time.
_MOST_PARTS = 4
_RESHAPES = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten"))


def on_grids(
    node: SourceNode, ins: dict[str, Constant], outs: list[Constant] | None
) -> list[Constant] | None:
    """Return the results of a node computed at import, with the grid of their values if known.

    Args:
        node: The node.
        ins: Its inputs by name.
        outs: Its outputs in order, None if it could not be computed.
    """
    if outs is None or len(outs) != 1:
        return outs
    grid = _grid_of(node, ins, outs[0])
    return outs if grid is None else [replace(outs[0], grid=grid)]


def grid_of(
    bits: int, *, signed: bool, shape: Shape, scales: Array, zeros: Array, axis: int, block: int = 0
) -> Spec | None:
    """Return the grid of integers of a tensor; None if the IR has no such encoding.

    Signed integers with zero points are stored unsigned, and those of several scales about the
    middle of an unsigned type signed, with an offset of 0: the same numbers, as QNN has them.
    Integers of a negative scale, as onnxruntime chooses for blocks whose largest number is above 0,
    are counted from the other end of the type. A scale of 0 makes any grid contain its numbers.

    Args:
        bits: Number of bits of an integer: 1 to 16, or 32 signed ones without zero points.
        signed: Whether they go from -2^(bits - 1).
        shape: Shape of the tensor.
        scales: One, one for each slice along the axis, or one for each block.
        zeros: Zero points of the same shape, of any type; there is no grid unless they are whole.
        axis: Axis of the slices or blocks.
        block: Elements of a block along the axis, 0 without blocks.
    """
    half = 1 << (bits - 1)
    wide = _whole(zeros)
    if wide is None or scales.size != wide.size:
        return None
    wide += half if signed else 0  # on the unsigned grid
    wide = np.where(scales.reshape(wide.shape) < 0, 2 * half - 1 - wide, wide)
    scales = np.where(scales == 0, scales.dtype.type(1), np.abs(scales))
    # several scales have no zero points in QNN; with one, unsigned integers stay what they are
    centered = bool((wide == half).all()) and (signed or scales.size > 1)
    if not centered and (bits > 16 or not ((wide >= 0) & (wide < 2 * half)).all()):
        return None
    points = np.zeros_like(wide) if centered else wide
    return exact_grid(
        bits, signed=centered, shape=shape, scales=scales, zeros=points, axis=axis, block=block
    )


def exact_grid(
    bits: int, *, signed: bool, shape: Shape, scales: Array, zeros: Array, axis: int, block: int = 0
) -> Spec | None:
    """Return the same for exactly the integers given; see `grid_of`."""
    stored = next((wide for wide in (8, 16, 32) if bits <= wide), 0)
    points = _whole(zeros)
    if not stored or points is None:
        return None
    if not _are_scales(scales) or scales.size != zeros.size:
        return None
    dtype = DType.fixed(stored, signed=signed)
    offsets = (-points).astype(np.int32).reshape(scales.shape) if points.any() else None
    narrow = bits if bits < stored else None
    encoding = _encoding(shape, scales.astype(np.float32), offsets, (axis, block), narrow)
    if encoding is None or encoding.faults(shape, dtype):
        return None
    return Spec(dtype, shape, encoding)


def kind_of(x: Constant) -> tuple[int, bool] | None:
    """Return the bits of stored integers and whether they are signed; None for other constants."""
    if x.packed is not None:
        return 4, PACKED_RANGES[x.packed][0] < 0
    return (x.dtype.bits, x.dtype.is_signed) if x.dtype in _STORED else None


def moved(grid: Spec | None, perm: Shape) -> Spec | None:
    """Return the grid of a tensor whose axes are put in another order."""
    if grid is None or grid.encoding is None:
        return None
    shape = tuple(grid.shape[p] for p in perm)
    return Spec(grid.dtype, shape, grid.encoding.transposed(perm))


def reshaped_grid(grid: Spec, shape: Shape) -> Spec | None:
    """Return the grid of a tensor in another shape; None if the scales do not fit that shape."""
    if grid.encoding is None or math.prod(shape) != math.prod(grid.shape):
        return None
    try:
        return Spec(grid.dtype, shape, grid.encoding.reshaped(grid.shape, shape))
    except QuantizationError:
        return None


def _grid_of(node: SourceNode, ins: dict[str, Constant], out: Constant) -> Spec | None:
    x = ins.get(node.inputs[0])
    if x is None or x.grid is None:
        return None
    if node.op_type == "Transpose":
        perm = Attributes(node.proto).integers("perm") or tuple(reversed(range(len(x.shape))))
        return moved(x.grid, perm)
    if node.op_type in _RESHAPES:
        return reshaped_grid(x.grid, out.shape)
    return None


def _whole(zeros: Array) -> NDArray[np.int64] | None:
    """Return zero points as integers; None unless all are whole numbers of at most 31 bits."""
    wide = zeros.astype(np.float64)
    if not ((wide == np.rint(wide)) & (np.abs(wide) < 2.0**31)).all():
        return None
    return wide.astype(np.int64)


def _are_scales(scales: Array) -> bool:
    """Return whether all are positive numbers that float32 holds in full."""
    wide = scales.astype(np.float64)
    ends = np.finfo(np.float32)
    return bool(((wide >= ends.tiny) & (wide <= ends.max)).all()) and scales.size > 0


def _encoding(
    shape: Shape,
    scales: NDArray[np.float32],
    offsets: NDArray[np.int32] | None,
    along: tuple[int, int],
    bitwidth: int | None,
) -> Encoding | None:
    """Return scales and offsets, of one shape, as an encoding of a tensor; None if none fits."""
    if scales.size == 1:
        offset = 0 if offsets is None else int(offsets.reshape(()))
        return ScaleOffset(float(scales.reshape(())), offset, bitwidth)
    axis, block = along
    if not -len(shape) <= axis < len(shape):
        return None
    axis %= len(shape)
    if scales.shape == (shape[axis],):
        return AxisScaleOffset(axis, scales, offsets, bitwidth)
    size = shape[axis]
    if block < 1 or scales.ndim != len(shape) or scales.shape[axis] != -(-size // block):
        return None
    # the last block may be a part of one: smaller blocks, several of which have the same scale
    block = min(block, size)
    whole = math.gcd(block, size)
    if block > _MOST_PARTS * whole:
        return None
    scales, *rest = (
        np.repeat(x, block // whole, axis).take(range(size // whole), axis)
        for x in (scales, *([] if offsets is None else [offsets]))
    )
    sizes = tuple(whole if i == axis else 1 for i in range(len(shape)))
    return Block(sizes, scales, rest[0] if rest else None, bitwidth)
