"""The decision on a tensor: a type, an encoding, and the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.ir import DType, Encoding, ScaleOffset
from dovetail.ops import Range


@dataclass(frozen=True, slots=True)
class EncodingDecision:
    """The type and encoding of a tensor.

    Attributes:
        dtype: A fixed-point type, or a float type without an encoding.
        encoding: The encoding of a fixed-point type.
        why: The reason.
        observed: The observed range.
    """

    dtype: DType
    encoding: Encoding | None
    why: str
    observed: Range | None = None

    @property
    def ends(self) -> Range | None:
        """The first and the last point of the grid; None unless it has exactly one scale."""
        if not isinstance(self.encoding, ScaleOffset):
            return None
        low, high = self.dtype.stored_range(self.encoding.bitwidth)
        scale, offset = self.encoding.scale, self.encoding.offset
        return (low + offset) * scale, (high + offset) * scale

    def counted_as(self, dtype: DType) -> EncodingDecision | None:
        """Return the same points of the grid in another type; see the function."""
        if dtype is self.dtype:
            return self
        if not isinstance(self.encoding, ScaleOffset):
            return None
        encoding = counted_as(self.encoding, self.dtype, dtype)
        return None if encoding is None else replace(self, dtype=dtype, encoding=encoding)


def counted_as(encoding: ScaleOffset, dtype: DType, other: DType) -> ScaleOffset | None:
    """Return the same points of a grid as integers of another signedness.

    Args:
        encoding: The grid.
        dtype: The fixed-point type of its integers.
        other: The type of the integers to return.

    Returns:
        The encoding; None if the types have unlike bits, or signed integers would need an offset.
    """
    if not other.is_fixed_point or other.bits != dtype.bits:
        return None
    moved = dtype.stored_range(encoding.bitwidth)[0] - other.stored_range(encoding.bitwidth)[0]
    offset = encoding.offset + moved
    if other.is_signed and offset:
        return None
    return ScaleOffset(encoding.scale, offset, encoding.bitwidth)
