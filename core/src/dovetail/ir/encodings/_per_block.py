"""One scale and offset for each block of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir.dtypes import DType
from dovetail.ir.encodings._contract import EncodingKind, Shape
from dovetail.ir.encodings._shared import (
    block_faults,
    common_faults,
    content_hash,
    offsets_or_zeros,
    same,
    same_shape_only,
    spread_blocks,
)
from dovetail.ir.storage import Array


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One scale and offset for each block.

    block_size: elements of a block along each axis; scales: float32 (dim / block size, ...);
    offsets: int32 of the same shape, or None for 0.
    """

    block_size: Shape
    scales: NDArray[np.float32]
    offsets: NDArray[np.int32] | None = None
    bitwidth: int | None = None

    @property
    def kind(self) -> EncodingKind:
        """BLOCK."""
        return EncodingKind.BLOCK

    @property
    def is_convertible(self) -> bool:
        """True."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Block):
            return NotImplemented
        return (self.block_size, self.bitwidth) == (other.block_size, other.bitwidth) and same(
            (self.scales, self._offsets()), (other.scales, other._offsets())
        )

    def __hash__(self) -> int:
        return content_hash(self.scales, self.block_size, self.bitwidth)

    def scales_and_offsets(self, shape: Shape) -> tuple[Array, Array]:
        """Return scales and offsets of the full `shape`."""
        scales = np.asarray(self.scales, np.float32)
        return spread_blocks(scales, self.block_size), spread_blocks(
            self._offsets(), self.block_size
        )

    def transposed(self, perm: Shape) -> Block:
        """Return the encoding with its blocks transposed."""
        offsets = None if self.offsets is None else self.offsets.transpose(perm)
        sizes = tuple(self.block_size[p] for p in perm)
        return Block(sizes, self.scales.transpose(perm), offsets, self.bitwidth)

    def reshaped(self, old: Shape, new: Shape) -> Block:
        """Return the encoding itself; only the same shape is allowed.

        Raises:
            QuantizationError: The shape changes.
        """
        same_shape_only(old, new)
        return self

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return the faults of blocks, scales and bitwidth."""
        found = common_faults(self.scales, self.bitwidth, dtype)
        return found + block_faults(self.block_size, self.scales, self.offsets, shape)

    def _offsets(self) -> NDArray[np.int32]:
        return offsets_or_zeros(self.offsets, self.scales)
