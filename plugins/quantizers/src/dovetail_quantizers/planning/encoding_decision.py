"""The decision on a tensor: a type, an encoding, and the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.ir import DType, Encoding, ScaleOffset
from dovetail.ops import Range
from dovetail_quantizers.grid import grid_range


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
        return grid_range(self.dtype, self.encoding)

    def counted_as(self, dtype: DType) -> EncodingDecision | None:
        """Return the same points of the grid in another type; see the function."""
        if dtype is self.dtype:
            return self
        if not isinstance(self.encoding, ScaleOffset):
            return None
        encoding = counted_as(self.encoding, self.dtype, dtype)
        return None if encoding is None else replace(self, dtype=dtype, encoding=encoding)

    def with_same_points(self, dtype: DType) -> EncodingDecision | None:
        """Return a grid of another type with all points of this one; None if there is none.

        If the type has more bits, the grid has more points between them.
        """
        return self.counted_as(dtype) or self.spread_over(dtype)

    def spread_over(self, dtype: DType) -> EncodingDecision | None:
        """Return a grid of another type with all points of this one, and the same range.

        A signed grid of more bits has more points above the range.

        Args:
            dtype: A fixed-point type of as many bits or of more.

        Returns:
            The decision; None if there is no such grid, or this one has not exactly one scale.
        """
        own = self.counted_as(DType.fixed(self.dtype.bits, signed=dtype.is_signed))
        if own is None or not isinstance(own.encoding, ScaleOffset) or own.encoding.bitwidth:
            return None
        last, widest = 2**own.dtype.bits - 1, 2**dtype.bits - 1
        if last > widest:
            return None
        factor = (widest + 1) // (last + 1) if dtype.is_signed else widest // last
        encoding = ScaleOffset(own.encoding.scale / factor, own.encoding.offset * factor)
        return replace(own, dtype=dtype, encoding=encoding)


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
