"""Quantization encodings: `real = (q + offset) * scale`, per tensor, per axis and per block.

Encodings are values: they do not change, they compare by content, and a layout change makes a new
one (`transposed`, `reshaped`) or refuses.
Source: spec/qnn_enums.md, "Quantization structures".
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizationError
from dovetail.ir.dtypes import DType
from dovetail.ir.storage import Array

Shape = tuple[int, ...]


class EncodingKind(enum.IntEnum):
    """QNN's numbers of the encodings."""

    SCALE_OFFSET = 0
    AXIS_SCALE_OFFSET = 1
    BW_SCALE_OFFSET = 2
    BW_AXIS_SCALE_OFFSET = 3
    BLOCK = 4
    BLOCKWISE_EXPANSION = 5


class Encoding(Protocol):
    """What every encoding can do. `bitwidth` narrows the stored type; None means all of it."""

    @property
    def kind(self) -> EncodingKind:
        """QNN's kind."""

    @property
    def bitwidth(self) -> int | None:
        """Bits really used, where fewer than the type's."""

    def grid(self, shape: Shape) -> tuple[Array, Array]:
        """Gives scales (float32) and offsets (float32), each broadcastable to `shape`."""

    def transposed(self, perm: Shape) -> Encoding:
        """Gives the encoding of the transposed tensor."""

    def reshaped(self, old: Shape, new: Shape) -> Encoding:
        """Gives the encoding of the reshaped tensor.

        Raises:
            QuantizationError: The encoding's axis or blocks do not survive.
        """

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Gives every reason why the encoding does not fit a tensor; none if it fits."""


@dataclass(frozen=True, slots=True)
class ScaleOffset:
    """One scale and offset for the whole tensor."""

    scale: float
    offset: int = 0
    bitwidth: int | None = None

    @property
    def kind(self) -> EncodingKind:
        """SCALE_OFFSET, or BW_SCALE_OFFSET when a bitwidth is given."""
        return EncodingKind.SCALE_OFFSET if self.bitwidth is None else EncodingKind.BW_SCALE_OFFSET

    def grid(self, shape: Shape) -> tuple[Array, Array]:
        """Gives the scale and the offset, shape () each."""
        return np.asarray(self.scale, np.float32), np.asarray(self.offset, np.float32)

    def transposed(self, perm: Shape) -> ScaleOffset:
        """Gives itself."""
        return self

    def reshaped(self, old: Shape, new: Shape) -> ScaleOffset:
        """Gives itself."""
        return self

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Gives what is wrong with scale, offset or bitwidth."""
        return _common_faults(np.asarray([self.scale]), self.bitwidth, dtype)


@dataclass(frozen=True, slots=True, eq=False)
class AxisScaleOffset:
    """One scale and offset for each slice along `axis`.

    scales: float32 (n,); offsets: int32 (n,), all 0 when not given; n is the axis's extent.
    """

    axis: int
    scales: NDArray[np.float32]
    offsets: NDArray[np.int32] | None = None
    bitwidth: int | None = None

    @property
    def kind(self) -> EncodingKind:
        """AXIS_SCALE_OFFSET, or BW_AXIS_SCALE_OFFSET when a bitwidth is given."""
        narrowed = self.bitwidth is not None
        return EncodingKind.BW_AXIS_SCALE_OFFSET if narrowed else EncodingKind.AXIS_SCALE_OFFSET

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AxisScaleOffset):
            return NotImplemented
        return (self.axis, self.bitwidth) == (other.axis, other.bitwidth) and _same(
            (self.scales, _offsets(self)), (other.scales, _offsets(other))
        )

    def __hash__(self) -> int:
        return hash((self.axis, self.bitwidth, np.asarray(self.scales).tobytes()))

    def grid(self, shape: Shape) -> tuple[Array, Array]:
        """Gives scales and offsets with extent n at `axis` and 1 elsewhere."""
        spread = tuple(-1 if i == self.axis else 1 for i in range(len(shape)))
        scales = np.asarray(self.scales, np.float32).reshape(spread)
        return scales, _offsets(self).astype(np.float32).reshape(spread)

    def transposed(self, perm: Shape) -> AxisScaleOffset:
        """Gives the encoding with its axis where `perm` puts it."""
        return self._at(perm.index(self.axis))

    def reshaped(self, old: Shape, new: Shape) -> AxisScaleOffset:
        """Gives the encoding at the axis of `new` that holds the same elements in the same order.

        Raises:
            QuantizationError: No axis of `new` does.
        """
        before, extent = math.prod(old[: self.axis]), old[self.axis]
        for axis, size in enumerate(new):
            if size == extent and math.prod(new[:axis]) == before:
                return self._at(axis)
        raise QuantizationError(
            f"a reshape from {old} to {new} splits or merges axis {self.axis}, which carries "
            f"{extent} scales",
            hint="reshape around that axis, or quantize the tensor per tensor",
        )

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Gives what is wrong with axis, lengths, scales or bitwidth."""
        found = _common_faults(self.scales, self.bitwidth, dtype)
        if not 0 <= self.axis < len(shape):
            return [*found, f"axis {self.axis} is not one of a tensor of shape {shape}"]
        if len(self.scales) != shape[self.axis]:
            found.append(f"{len(self.scales)} scales for {shape[self.axis]} slices on {self.axis=}")
        if len(_offsets(self)) != len(self.scales):
            found.append(f"{len(_offsets(self))} offsets for {len(self.scales)} scales")
        return found

    def _at(self, axis: int) -> AxisScaleOffset:
        return AxisScaleOffset(axis, self.scales, self.offsets, self.bitwidth)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One scale and offset for each block.

    block_size: elements of a block along each dimension; scales float32 and offsets int32 of shape
    (dim / block size, ...), offsets all 0 when not given.
    """

    block_size: Shape
    scales: NDArray[np.float32]
    offsets: NDArray[np.int32] | None = None
    bitwidth: int | None = None

    @property
    def kind(self) -> EncodingKind:
        """BLOCK."""
        return EncodingKind.BLOCK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Block):
            return NotImplemented
        return (self.block_size, self.bitwidth) == (other.block_size, other.bitwidth) and _same(
            (self.scales, _offsets(self)), (other.scales, _offsets(other))
        )

    def __hash__(self) -> int:
        return hash((self.block_size, self.bitwidth, np.asarray(self.scales).tobytes()))

    def grid(self, shape: Shape) -> tuple[Array, Array]:
        """Gives scales and offsets of the full `shape`."""
        return self._spread(self.scales), self._spread(_offsets(self).astype(np.float32))

    def transposed(self, perm: Shape) -> Block:
        """Gives the encoding with its blocks transposed."""
        offsets = None if self.offsets is None else self.offsets.transpose(perm)
        sizes = tuple(self.block_size[p] for p in perm)
        return Block(sizes, self.scales.transpose(perm), offsets, self.bitwidth)

    def reshaped(self, old: Shape, new: Shape) -> Block:
        """Gives itself for the same shape.

        Raises:
            QuantizationError: The shape changes.
        """
        if old == new:
            return self
        raise QuantizationError(
            f"a reshape from {old} to {new} would cut the tensor's quantization blocks",
            hint="reshape before quantizing per block",
        )

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Gives what is wrong with blocks, scales or bitwidth."""
        found = _common_faults(self.scales, self.bitwidth, dtype)
        sizes = self.block_size
        if len(sizes) != len(shape) or any(b < 1 or n % b for b, n in zip(sizes, shape, strict=True)):
            return [*found, f"blocks of {sizes} do not divide a tensor of shape {shape}"]
        wanted = tuple(n // b for b, n in zip(sizes, shape, strict=True))
        for name, array in (("scales", self.scales), ("offsets", _offsets(self))):
            if array.shape != wanted:
                found.append(f"{name} of shape {array.shape} where the blocks need {wanted}")
        return found

    def _spread(self, array: Array) -> Array:
        for axis, size in enumerate(self.block_size):
            array = np.repeat(array, size, axis)
        return array


@dataclass(frozen=True, slots=True, eq=False)
class BlockwiseExpansion:
    """Per-channel scales, refined by small integer factors for blocks along the other axes (LPBQ).

    scales float32 (channels,), offsets int32 (channels,) or None for 0; block_scales uint8 or
    uint16 (channels, blocks), blocks dividing the elements of a channel in C order.
    """

    axis: int
    scales: NDArray[np.float32]
    block_scales: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int32] | None = None
    bitwidth: int | None = 4
    block_scale_bitwidth: int = 4

    @property
    def kind(self) -> EncodingKind:
        """BLOCKWISE_EXPANSION."""
        return EncodingKind.BLOCKWISE_EXPANSION

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockwiseExpansion):
            return NotImplemented
        mine = (self.axis, self.bitwidth, self.block_scale_bitwidth)
        theirs = (other.axis, other.bitwidth, other.block_scale_bitwidth)
        return mine == theirs and _same(
            (self.scales, self.block_scales, _offsets(self)),
            (other.scales, other.block_scales, _offsets(other)),
        )

    def __hash__(self) -> int:
        return hash((self.axis, self.bitwidth, np.asarray(self.scales).tobytes()))

    def grid(self, shape: Shape) -> tuple[Array, Array]:
        """Gives scales of the full `shape` and offsets broadcastable to it."""
        channels = shape[self.axis]
        rest = shape[: self.axis] + shape[self.axis + 1 :]
        factors = self.block_scales.astype(np.float32) * np.asarray(self.scales)[:, None]
        per_block = math.prod(rest) // max(self.block_scales.shape[1], 1)
        full = np.repeat(factors, per_block, axis=1).reshape(channels, *rest)
        spread = tuple(-1 if i == self.axis else 1 for i in range(len(shape)))
        offsets = _offsets(self).astype(np.float32).reshape(spread)
        return np.moveaxis(full, 0, self.axis), offsets

    def transposed(self, perm: Shape) -> BlockwiseExpansion:
        """Gives the encoding with its axis moved, where the other axes keep their order.

        Raises:
            QuantizationError: The other axes change places, which would mix the blocks.
        """
        rest = [p for p in perm if p != self.axis]
        if rest != sorted(rest):
            raise QuantizationError(
                f"a transpose by {perm} mixes blocks that run along the axes other than "
                f"{self.axis}",
                hint="transpose before quantizing per block",
            )
        return self._at(perm.index(self.axis))

    def reshaped(self, old: Shape, new: Shape) -> BlockwiseExpansion:
        """Gives itself for the same shape.

        Raises:
            QuantizationError: The shape changes.
        """
        if old == new:
            return self
        raise QuantizationError(
            f"a reshape from {old} to {new} would cut the tensor's quantization blocks",
            hint="reshape before quantizing per block",
        )

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Gives what is wrong with axis, lengths, blocks, scales or bitwidth."""
        found = _common_faults(self.scales, self.bitwidth, dtype)
        if not 0 <= self.axis < len(shape):
            return [*found, f"axis {self.axis} is not one of a tensor of shape {shape}"]
        channels = shape[self.axis]
        if self.block_scales.ndim != 2 or {len(self.scales), len(self.block_scales)} != {channels}:
            return [*found, f"scales and block scales must have {channels} rows on {self.axis=}"]
        if len(_offsets(self)) != channels:
            found.append(f"{len(_offsets(self))} offsets for {channels} channels")
        blocks = self.block_scales.shape[1]
        each = math.prod(shape) // max(channels, 1)
        if blocks < 1 or each % blocks:
            found.append(f"{blocks} blocks do not divide the {each} elements of a channel")
        if int(self.block_scales.max(initial=0)) >= 1 << self.block_scale_bitwidth:
            found.append(f"a block scale does not fit {self.block_scale_bitwidth} bits")
        return found

    def _at(self, axis: int) -> BlockwiseExpansion:
        return BlockwiseExpansion(
            axis,
            self.scales,
            self.block_scales,
            self.offsets,
            self.bitwidth,
            self.block_scale_bitwidth,
        )


def dequantize(stored: Array, encoding: Encoding) -> NDArray[np.float32]:
    """Gives the real values of stored integers, float32, any shape."""
    scale, offset = encoding.grid(stored.shape)
    # float64 for 32-bit integers: they have more digits than a float32
    wide = np.float64 if stored.dtype.itemsize > 2 else np.float32
    return ((stored.astype(wide) + offset) * scale).astype(np.float32)


def quantize(real: Array, encoding: Encoding, dtype: DType) -> Array:
    """Gives stored integers: `clip(rint(real / scale) - offset)`, half to even, any shape."""
    scale, offset = encoding.grid(real.shape)
    low, high = dtype.stored_range(encoding.bitwidth)
    # float64: a 32-bit grid has more steps than a float32 has digits
    steps = np.rint(real.astype(np.float64) / scale.astype(np.float64)) - offset
    # NaN has no place on the grid; the zero point is the least harmful one
    steps = np.where(np.isnan(steps), -offset.astype(np.float64), steps)
    stored: Array = np.clip(steps, low, high).astype(dtype.storage)
    return stored


def _offsets(encoding: AxisScaleOffset | Block | BlockwiseExpansion) -> NDArray[np.int32]:
    if encoding.offsets is None:
        return np.zeros(np.asarray(encoding.scales).shape, np.int32)
    return np.asarray(encoding.offsets)


def _same(mine: tuple[Array, ...], theirs: tuple[Array, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


def _common_faults(scales: Array, bitwidth: int | None, dtype: DType) -> list[str]:
    found = []
    scales = np.asarray(scales)
    if not np.all(np.isfinite(scales)) or bool(np.any(scales < 0)):
        found.append("a scale is negative or not finite")
    if not dtype.is_fixed_point:
        found.append(f"{dtype.name} is no fixed-point type and takes no encoding")
    elif bitwidth is not None and not 1 <= bitwidth <= dtype.bits:
        found.append(f"bitwidth {bitwidth} does not fit {dtype.name}")
    return found
