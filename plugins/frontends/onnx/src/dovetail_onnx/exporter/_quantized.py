"""Encodings in ONNX's terms: scales, zero points and their axis."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Encoding,
    ScaleOffset,
    Shape,
    Tensor,
)
from dovetail_onnx.exporter._model import element_type

# Difference between signed and unsigned 8-bit integers of the same grid points.
_HALF = 128


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """The arguments of QuantizeLinear and DequantizeLinear next to the values.

    Attributes:
        dtype: Data type that the values are stored as.
        scales: float32, of rank 0, 1 or, in blocks, of the tensor's.
        zero_points: Array of the shape of the scales, or None if all are 0 and ONNX allows none.
        axis: Axis of scales of rank 1 or more.
        block_size: Elements of a block along the axis, None without blocks.
    """

    dtype: DType
    scales: Array
    zero_points: Array | None
    axis: int | None = None
    block_size: int | None = None

    @property
    def attributes(self) -> dict[str, int | None]:
        """The nodes' attributes."""
        return {"axis": self.axis, "block_size": self.block_size}


def stored_type(dtype: DType, encoding: Encoding) -> DType:
    """Return the type that the values fit: of 4 bits where the encoding uses no more."""
    if encoding.bitwidth is not None and encoding.bitwidth <= 4:
        return DType.fixed(4, signed=dtype.is_signed)
    return dtype


def of_activation(tensor: Tensor, order: Shape) -> Parameters | str:
    """Return the parameters of a computed tensor, or the reason why ONNX cannot express them.

    Args:
        tensor: With its encoding.
        order: The order of its axes in the ONNX value.
    """
    found = of_stored(tensor, order)
    single = isinstance(tensor.encoding, ScaleOffset)
    return _unsigned(found) if single and isinstance(found, Parameters) else found


def of_stored(tensor: Tensor, order: Shape) -> Parameters | str:
    """Return the same for exactly the integers that the tensor stores; see `of_activation`."""
    encoding = tensor.encoding
    if encoding is None:
        return f"{tensor.dtype.name} without an encoding"
    dtype = stored_type(tensor.dtype, encoding)
    if dtype.bits > 16 or element_type(dtype) is None:
        return f"QuantizeLinear produces integers of 4, 8 and 16 bits, not {dtype.name}"
    if isinstance(encoding, ScaleOffset):
        scale, offset = encoding.scales_and_offsets(tensor.shape)
        return _checked(dtype, scale, offset, None)
    if isinstance(encoding, AxisScaleOffset):
        scale, offset = (a.reshape(-1) for a in encoding.scales_and_offsets(tensor.shape))
        return _checked(dtype, scale, offset, order.index(encoding.axis))
    return "a computed tensor cannot be quantized in blocks"


def of_constant(
    stored: Array, encoding: Encoding, dtype: DType, order: Shape
) -> tuple[Array, Parameters] | str:
    """Return a constant's stored values and parameters, or why ONNX cannot express them.

    Args:
        stored: In the graph's own layout, any shape.
        encoding: Their encoding.
        dtype: Data type that they are stored as.
        order: The order of their axes in the ONNX value.
    """
    dtype = stored_type(dtype, encoding)
    axis, block_size = None, None
    if isinstance(encoding, ScaleOffset):
        scales, offsets = encoding.scales_and_offsets(stored.shape)
    elif isinstance(encoding, AxisScaleOffset):
        scales, offsets = (a.reshape(-1) for a in encoding.scales_and_offsets(stored.shape))
        axis = order.index(encoding.axis)
    else:
        grid = (
            np.broadcast_to(a, stored.shape).transpose(order)
            for a in encoding.scales_and_offsets(stored.shape)
        )
        scales, offsets = grid
        found = _blocks(scales, offsets)
        if found is None:
            return "the blocks extend along more than one axis"
        axis, block_size = found
        taken = [slice(None)] * scales.ndim
        taken[axis] = slice(None, None, block_size)
        scales, offsets = scales[tuple(taken)], offsets[tuple(taken)]
    values = stored.transpose(order)
    if dtype.bits == 32:
        return _wide(values, scales, offsets, axis, block_size)
    found_or_why = _checked(dtype, scales, offsets, axis, block_size)
    return found_or_why if isinstance(found_or_why, str) else (values, found_or_why)


def _wide(
    values: Array, scales: Array, offsets: Array, axis: int | None, block_size: int | None
) -> tuple[Array, Parameters] | str:
    """Return 32-bit values with the offset added, since their zero point must be 0 in ONNX."""
    if axis is not None and block_size is None:
        offsets = offsets.reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    elif block_size is not None and axis is not None:
        offsets = np.repeat(offsets, block_size, axis)
    shifted = values.astype(np.int64) + offsets
    low, high = DType.SFIXED_POINT_32.stored_range()
    if shifted.size and not low <= int(shifted.min()) <= int(shifted.max()) <= high:
        return "ONNX has no zero points of 32-bit integers, and without its offset it needs more"
    made = Parameters(DType.SFIXED_POINT_32, scales, None, axis, block_size)
    return shifted.astype(np.int32), made


def _unsigned(found: Parameters) -> Parameters:
    """Return the same points of a signed grid of 8 bits as unsigned integers.

    ONNX Runtime makes pairs of signed ones unsigned itself, and then rejects those that it had
    moved past a Transpose or Reshape before: it forgets their output_dtype.
    """
    if found.dtype is not DType.SFIXED_POINT_8:
        return found
    signed = np.asarray(found.zero_points, np.int16)
    return replace(found, dtype=DType.UFIXED_POINT_8, zero_points=(signed + _HALF).astype(np.uint8))


def _checked(
    dtype: DType, scales: Array, offsets: Array, axis: int | None, block_size: int | None = None
) -> Parameters | str:
    zero_points = -offsets.astype(np.int64)
    low, high = dtype.stored_range()
    if zero_points.size and not low <= zero_points.min() <= zero_points.max() <= high:
        worst = zero_points.max() if zero_points.max() > high else zero_points.min()
        return f"zero point {worst} is out of range for {dtype.name}, {low} to {high}"
    return Parameters(dtype, scales, zero_points.astype(dtype.storage), axis, block_size)


def _blocks(scales: Array, offsets: Array) -> tuple[int, int] | None:
    """Return the axis along which scales repeat, and how often; None if there are several."""
    sizes = [min(_run(scales, axis), _run(offsets, axis)) for axis in range(scales.ndim)]
    along = [axis for axis, size in enumerate(sizes) if size > 1]
    if len(along) > 1:
        return None
    axis = along[0] if along else scales.ndim - 1
    return axis, sizes[axis]


def _run(values: Array, axis: int) -> int:
    """Return the maximum size of equal blocks that an axis divides into."""
    extent = values.shape[axis]
    if extent < 2 or not values.size:
        return 1
    first = np.moveaxis(values, axis, 0)
    changes = np.flatnonzero((first[1:] != first[:-1]).reshape(extent - 1, -1).any(axis=1)) + 1
    return int(np.gcd.reduce(changes, initial=extent))
