"""One scale and offset for each slice along an axis."""

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
)
from dovetail.ir.storage import Array


class AxisScaleOffset(ByContent, msgspec.Struct, frozen=True, eq=False):
    """One scale and offset for each slice along `axis`.

    scales: float32 (n,); offsets: int32 (n,), or None for 0; n is the size of the axis.
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

    @property
    def is_convertible(self) -> bool:
        """True."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AxisScaleOffset):
            return NotImplemented
        return (self.axis, self.bitwidth) == (other.axis, other.bitwidth) and same(
            (self.scales, self._offsets()), (other.scales, other._offsets())
        )

    def __hash__(self) -> int:
        return content_hash(self.scales, self.axis, self.bitwidth)

    def scales_and_offsets(self, shape: Shape) -> tuple[Array, Array]:
        """Return scales and offsets with size n at `axis` and 1 elsewhere."""
        spread = tuple(-1 if i == self.axis else 1 for i in range(len(shape)))
        scales = np.asarray(self.scales, np.float32).reshape(spread)
        return scales, self._offsets().reshape(spread)

    def transposed(self, perm: Shape) -> AxisScaleOffset:
        """Return the encoding with its axis moved by `perm`."""
        return self._at(perm.index(self.axis))

    def reshaped(self, old: Shape, new: Shape) -> AxisScaleOffset:
        """Return the encoding for the axis of `new` with the same elements in the same order.

        Raises:
            QuantizationError: `new` has no such axis.
        """
        before, count = math.prod(old[: self.axis]), old[self.axis]
        for axis, size in enumerate(new):
            if size == count and math.prod(new[:axis]) == before:
                return self._at(axis)
        raise QuantizationError(
            f"a reshape from {old} to {new} splits or merges axis {self.axis}, which has "
            f"{count} scales",
            hint="reshape around that axis, or quantize the tensor per tensor",
        )

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return the faults of axis, lengths, scales and bitwidth."""
        found = common_faults(self.scales, self.offsets, self.bitwidth, dtype)
        if not 0 <= self.axis < len(shape):
            return [*found, f"axis {self.axis} is out of range for the shape {shape}"]
        wanted = (shape[self.axis],)
        for name, array in (("scales", self.scales), ("offsets", self.offsets)):
            if array is not None and np.shape(array) != wanted:
                found.append(
                    f"expected {name} of shape {wanted} for axis {self.axis}, got {np.shape(array)}"
                )
        return found

    def _offsets(self) -> NDArray[np.int32]:
        return offsets_or_zeros(self.offsets, self.scales)

    def _at(self, axis: int) -> AxisScaleOffset:
        return AxisScaleOffset(axis, self.scales, self.offsets, self.bitwidth)
