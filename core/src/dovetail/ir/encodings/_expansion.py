"""Per-channel scales refined by small integer factors for blocks (LPBQ)."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizationError
from dovetail.ir.dtypes import DType
from dovetail.ir.encodings._contract import EncodingKind, Shape
from dovetail.ir.encodings._shared import (
    ByContent,
    common_faults,
    content_hash,
    offsets_or_zeros,
    same,
    same_shape_only,
)
from dovetail.ir.storage import Array


class BlockwiseExpansion(ByContent, msgspec.Struct, frozen=True, eq=False):
    """Per-channel scales, refined by small integer factors for blocks along the other axes (LPBQ).

    scales: float32 (channels,); offsets: int32 (channels,), or None for 0; block_scales: uint8 or
    uint16 (channels, blocks). The blocks divide the elements of a channel in C order.
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

    @property
    def is_convertible(self) -> bool:
        """True."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockwiseExpansion):
            return NotImplemented
        mine = (self.axis, self.bitwidth, self.block_scale_bitwidth)
        theirs = (other.axis, other.bitwidth, other.block_scale_bitwidth)
        return mine == theirs and same(
            (self.scales, self.block_scales, self._offsets()),
            (other.scales, other.block_scales, other._offsets()),
        )

    def __hash__(self) -> int:
        return content_hash(self.scales, self.axis, self.bitwidth)

    def scales_and_offsets(self, shape: Shape) -> tuple[Array, Array]:
        """Return scales of the full `shape` and offsets broadcastable to it."""
        channels = shape[self.axis]
        rest = shape[: self.axis] + shape[self.axis + 1 :]
        per_channel = np.asarray(self.scales, np.float32)[:, None]
        factors = self.block_scales.astype(np.float32) * per_channel
        per_block = math.prod(rest) // max(self.block_scales.shape[1], 1)
        full = np.repeat(factors, per_block, axis=1).reshape(channels, *rest)
        spread = tuple(-1 if i == self.axis else 1 for i in range(len(shape)))
        return np.moveaxis(full, 0, self.axis), self._offsets().reshape(spread)

    def transposed(self, perm: Shape) -> BlockwiseExpansion:
        """Return the encoding with its axis moved; the other axes must keep their order.

        Raises:
            QuantizationError: The order of the other axes changes, which would mix the blocks.
        """
        rest = [p for p in perm if p != self.axis]
        if rest != sorted(rest):
            raise QuantizationError(
                f"a transpose by {perm} mixes blocks that run along the axes other than "
                f"{self.axis}",
                hint="transpose before quantizing per block",
            )
        return BlockwiseExpansion(
            perm.index(self.axis),
            self.scales,
            self.block_scales,
            self.offsets,
            self.bitwidth,
            self.block_scale_bitwidth,
        )

    def reshaped(self, old: Shape, new: Shape) -> BlockwiseExpansion:
        """Return the encoding itself; only the same shape is allowed.

        Raises:
            QuantizationError: The shape changes.
        """
        same_shape_only(old, new)
        return self

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return the faults of axis, lengths, blocks, scales and bitwidth."""
        found = common_faults(self.scales, self.offsets, self.bitwidth, dtype)
        if not 0 <= self.axis < len(shape):
            return [*found, f"axis {self.axis} is out of range for the shape {shape}"]
        channels = shape[self.axis]
        for name, array in (("scales", self.scales), ("offsets", self.offsets)):
            if array is not None and np.shape(array) != (channels,):
                found.append(f"expected {name} of shape {(channels,)}, got {np.shape(array)}")
        return found + self._block_faults(channels, math.prod(shape) // max(channels, 1))

    def _block_faults(self, channels: int, each: int) -> list[str]:
        if self.block_scales.ndim != 2 or len(self.block_scales) != channels:
            shape = self.block_scales.shape
            return [f"expected block scales with {channels} rows, got the shape {shape}"]
        found = []
        blocks = self.block_scales.shape[1]
        if blocks < 1 or each % blocks:
            found.append(f"{blocks} blocks do not divide the {each} elements of a channel")
        if int(self.block_scales.max(initial=0)) >= 1 << self.block_scale_bitwidth:
            found.append(f"a block scale does not fit {self.block_scale_bitwidth} bits")
        return found

    def _offsets(self) -> NDArray[np.int32]:
        return offsets_or_zeros(self.offsets, self.scales)
