"""One scale and fractional offset for each block of a tensor."""

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
    same,
    same_shape_only,
    spread_blocks,
)
from dovetail.ir.storage import Array


@dataclass(frozen=True, slots=True, eq=False)
class FloatBlock:
    """One scale and one offset for each block, where offsets may be fractions.

    block_size: elements of a block along each axis; scales: float32 (dim / block size, ...);
    offsets: float32 of the same shape. `real = (q + offset) * scale`, as for integer offsets.
    """

    block_size: Shape
    scales: NDArray[np.float32]
    offsets: NDArray[np.float32]
    bitwidth: int | None = None

    @property
    def kind(self) -> EncodingKind:
        """FLOAT_BLOCK, or BW_FLOAT_BLOCK when a bitwidth is given."""
        return EncodingKind.FLOAT_BLOCK if self.bitwidth is None else EncodingKind.BW_FLOAT_BLOCK

    @property
    def is_convertible(self) -> bool:
        """True."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FloatBlock):
            return NotImplemented
        return (self.block_size, self.bitwidth) == (other.block_size, other.bitwidth) and same(
            (self.scales, self.offsets), (other.scales, other.offsets)
        )

    def __hash__(self) -> int:
        return content_hash(self.scales, self.block_size, self.bitwidth)

    def scales_and_offsets(self, shape: Shape) -> tuple[Array, Array]:
        """Return scales and offsets of the full `shape`, float32."""
        scales, offsets = (np.asarray(a, np.float32) for a in (self.scales, self.offsets))
        return spread_blocks(scales, self.block_size), spread_blocks(offsets, self.block_size)

    def transposed(self, perm: Shape) -> FloatBlock:
        """Return the encoding with its blocks transposed."""
        sizes = tuple(self.block_size[p] for p in perm)
        scales, offsets = self.scales.transpose(perm), self.offsets.transpose(perm)
        return FloatBlock(sizes, scales, offsets, self.bitwidth)

    def reshaped(self, old: Shape, new: Shape) -> FloatBlock:
        """Return the encoding itself; only the same shape is allowed.

        Raises:
            QuantizationError: The shape changes.
        """
        same_shape_only(old, new)
        return self

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return the faults of blocks, scales, offsets and bitwidth."""
        found = common_faults(self.scales, self.bitwidth, dtype)
        if not np.all(np.isfinite(self.offsets)):
            found.append("an offset is not finite")
        return found + block_faults(self.block_size, self.scales, self.offsets, shape)
