"""One scale and offset for each block of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir.dtypes import DType
from dovetail.ir.encodings._contract import EncodingKind, Shape
from dovetail.ir.encodings._shared import (
    common_faults,
    content_hash,
    offsets_or_zeros,
    same,
    same_shape_only,
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
        return self._spread(np.asarray(self.scales, np.float32)), self._spread(self._offsets())

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
        sizes = self.block_size
        if len(sizes) != len(shape) or any(
            b < 1 or n % b for b, n in zip(sizes, shape, strict=True)
        ):
            return [*found, f"blocks of {sizes} do not divide a tensor of shape {shape}"]
        wanted = tuple(n // b for b, n in zip(sizes, shape, strict=True))
        for name, array in (("scales", self.scales), ("offsets", self.offsets)):
            if array is not None and np.shape(array) != wanted:
                found.append(
                    f"expected {name} of shape {wanted} for the blocks, got {np.shape(array)}"
                )
        return found

    def _offsets(self) -> NDArray[np.int32]:
        return offsets_or_zeros(self.offsets, self.scales)

    def _spread(self, array: Array) -> Array:
        for axis, size in enumerate(self.block_size):
            array = np.repeat(array, size, axis)
        return array
