"""One scale and offset for each block of a tensor."""

from __future__ import annotations

from typing import Any, Self

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dovetail.ir.dtypes import DType
from dovetail.ir.encodings._contract import EncodingKind, Shape
from dovetail.ir.encodings._shared import (
    ByContent,
    block_faults,
    common_faults,
    content_hash,
    offsets_or_zeros,
    same,
    same_shape_only,
    spread_blocks,
)
from dovetail.ir.storage import Array


class _Blocks(ByContent):
    """The methods of both encodings, whatever the type of their offsets."""

    __slots__ = ()

    block_size: Shape
    scales: NDArray[np.float32]
    offsets: NDArray[Any] | None
    bitwidth: int | None

    @property
    def is_convertible(self) -> bool:
        """True."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
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

    def transposed(self, perm: Shape) -> Self:
        """Return the encoding with its blocks transposed."""
        sizes = tuple(self.block_size[p] for p in perm)
        offsets = None if self.offsets is None else self.offsets.transpose(perm)
        changes: Any = {"scales": self.scales.transpose(perm), "offsets": offsets}
        return replace(self, block_size=sizes, **changes)  # type: ignore[type-var] # a dataclass

    def reshaped(self, old: Shape, new: Shape) -> Self:
        """Return the encoding itself; only the same shape is allowed.

        Raises:
            QuantizationError: The shape changes.
        """
        same_shape_only(old, new)
        return self

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return the faults of blocks, scales, offsets and bitwidth."""
        found = common_faults(self.scales, self._whole_offsets(), self.bitwidth, dtype)
        if not np.all(np.isfinite(self._offsets())):
            found.append("an offset is not finite")
        return found + block_faults(self.block_size, self.scales, self.offsets, shape)

    def _offsets(self) -> Array:
        return offsets_or_zeros(self.offsets, self.scales)

    def _whole_offsets(self) -> Array | None:
        """Return the offsets if they must be whole numbers."""
        return self.offsets


class Block(_Blocks, msgspec.Struct, frozen=True, eq=False):
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


class FloatBlock(_Blocks, msgspec.Struct, frozen=True, eq=False):
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

    def _offsets(self) -> Array:
        return np.asarray(self.offsets, np.float32)

    def _whole_offsets(self) -> None:
        return None
